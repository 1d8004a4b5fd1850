//! What the guide tells a reader to type: every line of a block that is marked `sh` is run, in the workspace, and can be answered.
//! The others need a guest, a dump or a file of the reader's: of them every command line is understood.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of the guide's blocks that begin so.
fn lines(mark: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for page in fs::read_dir(root().join("docs/guide")).expect("the guide").flatten() {
        let text = fs::read_to_string(page.path()).expect("text");
        // A block stands between every other pair of marks.
        let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix(mark));
        lines.extend(blocks.flat_map(str::lines).map(str::to_owned));
    }
    lines
}

fn run(line: &str, folder: &Path) -> Output {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("vellum"), "{line}");
    Command::new(env!("CARGO_BIN_EXE_vellum")).args(words).current_dir(folder).output().expect("it runs")
}

#[test]
fn every_command_of_the_guide_runs() {
    let lines = lines("sh\n");
    for line in &lines {
        let output = run(line, &root());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)) && !output.stdout.is_empty(), "{line}: {said}");
    }
    assert!(lines.len() >= 12, "{} commands", lines.len());
}

#[test]
fn every_other_command_line_is_understood() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
    fs::create_dir_all(&folder).expect("a folder");
    let lines: Vec<String> = lines("\n").into_iter().filter(|line| line.starts_with("vellum ")).collect();
    for line in &lines {
        let said = String::from_utf8_lossy(&run(line, &folder).stderr).into_owned();
        assert!(!said.contains("For more information, try '--help'") && !said.contains("panicked"), "{line}: {said}");
    }
    assert!(lines.len() >= 9, "{} commands", lines.len());
}
