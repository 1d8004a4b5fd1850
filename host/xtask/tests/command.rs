//! The command as a person meets it: help, and one clear line for what is wrong.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("xtask runs")
}

#[test]
fn help_teaches_by_example() {
    for (arguments, example) in [
        (&["--help"][..], "cargo xtask run --page-size 16k"),
        (&["run", "--help"], "cargo xtask run -- -M virtualization=on"),
        (&["test", "-h"], "cargo xtask test boot"),
        (&["tidy", "--help"], "cargo xtask tidy"),
    ] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(example), "{arguments:?}");
    }
}

#[test]
fn bad_input_is_one_line_and_status_2() {
    for arguments in [
        &[][..],
        &["boot"],
        &["run", "--page-size", "8k"],
        &["run", "--cpus", "9"],
        &["run", "--memory", "lots"],
        &["run", "--page-sizes", "4k"],
        &["run", "stray"],
        &["test", "--fast"],
        &["test", "no test has this name"],
        &["tidy", "everything"],
        &["check", "--litmus", "--code"],
    ] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{arguments:?}");
    }
}

#[test]
fn tests_can_be_listed() {
    let output = xtask(&["test", "--list", "boot 4k"]);
    assert_eq!(output.status.code(), Some(0));
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(names.lines().count() > 2 && names.lines().all(|name| name.contains("boot 4k")), "{names}");
}

/// A host without QEMU, apt or any right to install: the programs on its path are cargo's alone.
#[test]
fn a_host_without_qemu_is_told_what_to_install() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_xtask")).arg("run").env("PATH", "/nowhere").output().expect("xtask runs");
    assert_eq!(output.status.code(), Some(3));
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(line.contains("apt-get install qemu-system-arm") && line.lines().count() == 1, "{line}");
}
