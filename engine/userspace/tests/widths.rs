//! Every other test of this crate, at each width of addresses. By themselves their spaces have 39 bits, or 42 with pages of 64 KiB.

use crate::common::widths::run_all;

/// What is on record is of one width, and this asks for no further process.
#[test]
fn every_test_holds_at_each_width() {
    run_all(&["recorded", "widths"]);
}
