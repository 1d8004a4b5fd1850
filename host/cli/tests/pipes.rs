//! How a command ends whose reader goes away, as of `vellum … | head -1`: with the status that the command has otherwise, and without
//! a word; and how one ends that is interrupted, or whose output has no
//! room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Longer than any of these commands takes on a host with much else to do.
const PATIENCE: &str = "60";

/// Runs the command; nobody reads what it prints. Status 124 says that it did not end.
fn unread(arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new("timeout");
    command.args([PATIENCE, env!("CARGO_BIN_EXE_vellum")]).args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs")
        .wait_with_output()
        .expect("it ends")
}

#[track_caller]
fn ends(arguments: &[&str], status: i32) {
    let output = unread(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(!said.contains("pipe") && !said.contains("panicked"), "{arguments:?}: {said}");
}

fn trace(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trace").join(name).display().to_string()
}

/// 512 pages that can be written and executed, at 0; no two of them side by side.
fn image(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("pipes-{name}-{}", std::process::id()));
    let mut words = vec![0u64; 4 * 512];
    (words[0], words[512], words[1024]) = (0x1003, 0x2003, 0x3003);
    (0..512).for_each(|page| words[1536 + page] = (2 * page as u64) << 12 | 0x703);
    fs::write(&path, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).expect("written");
    path
}

#[test]
fn a_dump_and_a_check_end_whose_reader_has_gone() {
    let path = image("unread");
    let source = format!("raw:{}@0", path.display());
    let by_hand = ["--ttbr1", "0", "--tcr", "0x15b5103510"];
    for how in [&[][..], &["--json"], &["--tables"], &["--stats"]] {
        ends(&[&["dump", &source], &by_hand[..], how].concat(), 0);
    }
    for how in [&["--all"][..], &["--json"]] {
        ends(&[&["check", &source], &by_hand[..], how].concat(), 1);
    }
    fs::remove_file(path).expect("removed");
}

#[test]
fn a_judgement_ends_whose_reader_has_gone() {
    let bad = trace("wrong-hint.trace");
    ends(&["judge", &bad, "--all"], 1);
    ends(&["judge", &bad, "--json"], 1);
    ends(&["judge", "--header"], 0);
}

/// It has nothing to write by which it would notice.
#[test]
fn a_file_is_followed_no_longer_than_somebody_reads() {
    ends(&["judge", &trace("wrong-hint.trace"), "--follow", "--all"], 1);
    ends(&["judge", &trace("unmap.trace"), "--follow"], 0);
}

/// The first Ctrl-C is enough where no guest is held.
#[test]
fn a_command_that_holds_no_guest_ends_when_it_is_interrupted() {
    let pipe = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("pipes-{}.trace", std::process::id()));
    let _ = fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let mut command = Command::new("timeout");
    command.args([PATIENCE, env!("CARGO_BIN_EXE_vellum"), "judge"]).arg(&pipe);
    let mut child = command.spawn().expect("it runs");
    // Opened once the command reads, and nothing is ever written.
    let held = fs::OpenOptions::new().write(true).open(&pipe).expect("a reader");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let status = child.wait().expect("it ends").code();
    drop(held);
    fs::remove_file(pipe).expect("removed");
    assert!(killed.success() && status == Some(130), "{status:?}");
}

#[test]
fn a_full_disk_is_told_with_what_to_do() {
    let path = image("full");
    let source = format!("raw:{}@0", path.display());
    let by_hand = ["--ttbr1", "0", "--tcr", "0x15b5103510"];
    for arguments in [
        &[&["dump", &source], &by_hand[..]].concat()[..],
        &[&["dump", &source, "--json"], &by_hand[..]].concat(),
        &[&["check", &source], &by_hand[..]].concat(),
        &["plan", "--memory", "1G"],
        &["judge", &trace("unmap.trace")],
        &["decode", "esr", "0"],
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
        let output = Command::new(env!("CARGO_BIN_EXE_vellum")).args(arguments).stdout(full).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_told = said.contains("standard output: No space left on device")
            && said.contains("make room there, or write elsewhere");
        assert!(output.status.code() == Some(2) && is_told, "{arguments:?}: {said}");
    }
    fs::remove_file(path).expect("removed");
}
