//! Every other test of this crate, at each width of addresses: spaces of 36 bits have the fewest levels of tables, those of 52 the most.
//! Another process runs them, as they all make their spaces alike. By themselves they are of 39 bits, or 42 with pages of 64 KiB.

use std::env;
use std::process::Command;

use crate::common::WIDTH;

/// What is on record is of one width, and this asks for no further process.
const ONCE: [&str; 4] = ["--skip", "recorded", "--skip", "widths"];

#[test]
fn every_test_holds_at_each_width() {
    for bits in ["36", "48", "52"] {
        let tests = env::current_exe().expect("a path");
        let ran = Command::new(tests).env(WIDTH, bits).args(ONCE).output().expect("a process");
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && !said.contains("running 0 tests"), "{bits} bits:\n{said}");
    }
}
