//! The command line of `cargo xtask check`: what makes no sense is one line that says what was expected, and status 2.

use std::path::PathBuf;
use std::process::{Command, Output};

fn checks(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_check")).args(arguments).output().expect("the command")
}

#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let output = checks(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty() && text.lines().count() == 1, "{arguments:?}: {text}");
    assert!(parts.iter().all(|part| text.contains(part)), "{arguments:?}: {parts:?} is not in {text}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    refused(&["--seed", "x"], &["'x' for '--seed <N>'", "see --help"]);
    refused(&["--seed", "18446744073709551616"], &["--seed"]);
    refused(&["--events", "-1"], &["'-1'"]);
    refused(&["--minutes", "soon"], &["'soon' for '--minutes <N>': expected 0 to 1000000 minutes"]);
    refused(&["--minutes", "NaN"], &["expected 0 to 1000000 minutes"]);
    refused(&["--minutes", "1", "--events", "5"], &["'--minutes <N>' cannot be used with '--events <N>'"]);
    refused(&["--mutants", "--seed", "3"], &["'--mutants' cannot be used with '--seed <N>'"]);
    refused(&["--schedule", "x", "--mutants"], &["'--schedule <FILE>'", "cannot be used with"]);
    refused(&["--schedule", "x", "--events", "5"], &["cannot be used with '--events <N>'"]);
    refused(&["--fast"], &["--fast", "see --help"]);
    refused(&["remap"], &["remap", "see --help"]);
}

#[test]
fn schedules_that_make_no_sense_are_refused_with_their_line() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.schedule", std::process::id()));
    let name = path.display().to_string();
    let bad = |bytes: &[u8], parts: &[&str]| {
        std::fs::write(&path, bytes).expect("a file");
        refused(&["--schedule", &name], parts);
    };
    bad(b"", &[":1: an empty file"]);
    bad(b"\xff\xfe", &[":1: ", "expected `vellum schedule 1`"]);
    bad(b"vellum schedule 1\nworkload remap\nrun 0x", &[":3: `0x`, expected NUMBERxNUMBER"]);
    bad(b"vellum schedule 1\nworkload remap\n", &[":2: no line `run"]);
    bad(b"vellum schedule 1\nworkload nothing\nrun 0x1", &[":2: no workload `nothing`, expected one of"]);
    std::fs::remove_file(&path).expect("the file");
    refused(&["--schedule", &name], &["No such file"]);
}

#[test]
fn help_teaches_by_example() {
    let output = checks(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(text.contains("Examples:") && text.contains("--schedule target/checks/"), "{text}");
    assert!(["litmus", "zoo", "code", "logic-mutants"].iter().all(|name| text.contains(name)), "{text}");
}

#[test]
fn a_check_is_named_by_a_word_or_an_option() {
    for name in ["zoo", "--zoo"] {
        let output = checks(&[name, "--list"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("kvm-stage2-live"), "{name}: {text}");
        refused(&[name, "--ets", "1"], &["ets=1", "expected"]);
    }
    refused(&["zoo", "--minutes", "1"], &["--minutes", "see --help"]);
    refused(&["--seed", "1", "litmus"], &["litmus"]);
}
