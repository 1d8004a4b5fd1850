//! What the guide tells a reader to type: every line of a block that is marked `sh` is run, in the workspace, and can be answered.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_command_of_the_guide_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for page in fs::read_dir(root.join("docs/guide")).expect("the guide").flatten() {
        let text = fs::read_to_string(page.path()).expect("text");
        let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        for line in blocks.flat_map(str::lines) {
            let mut words = line.split_whitespace();
            assert_eq!(words.next(), Some("vellum"), "{line}");
            let output =
                Command::new(env!("CARGO_BIN_EXE_vellum")).args(words).current_dir(&root).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 1)) && !output.stdout.is_empty(), "{line}: {said}");
            count += 1;
        }
    }
    assert!(count >= 12, "{count} commands");
}
