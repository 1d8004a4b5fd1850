//! The command as a person meets it: help, and one clear line for what is wrong.

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("xtask runs")
}

#[test]
fn help_teaches_by_example() {
    for (arguments, example) in [
        (&["--help"][..], "cargo xtask COMMAND --help"),
        (&["run", "--help"], "cargo xtask run -- -M virtualization=on"),
        (&["test", "-h"], "cargo xtask test boot"),
        (&["compare", "linux", "--help"], "cargo xtask fetch linux"),
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

/// Files are looked at before anything is built, and before a host without QEMU or cargo is told of that.
#[test]
fn a_file_that_will_not_do_is_told_at_once() {
    let folder = std::env::temp_dir().join(format!("vellum-command-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let file = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, content).expect("a file for the test");
        path.to_str().expect("a name in UTF-8").to_string()
    };
    let missing = folder.join("missing").to_str().expect("a name in UTF-8").to_string();
    let header = |bytes: usize| [&[0; 56][..], b"ARM\x64", &[0; 4]].concat()[..bytes].to_vec();
    let (short, image) = (file("short", &header(60)), file("image", &[0x5a; 4096]));
    let (wrong, folder_itself) =
        (file("wrong.toml", b"[[cpu]]\ncpus = 9"), folder.to_str().expect("UTF-8").to_string());
    for arguments in [
        &["--monitor", "--machine", &wrong][..],
        &["--monitor", "--machine", &format!("{missing}.toml")],
        &["--monitor", "--kernel", &missing],
        &["--monitor", "--kernel", &short],
        &["--kernel", &image],
        &["--kernel", &folder_itself],
        &["--initrd", &missing],
        &["--initrd", &folder_itself],
    ] {
        let command = [&["run"], arguments].concat();
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let output = xtask.args(&command).env("PATH", "/nowhere").output().expect("xtask runs");
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{command:?}: {line}");
        let last = arguments.last().expect("a file");
        assert!(line.contains(*last) && line.contains("nothing was booted"), "{command:?}: {line}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder of the test");
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
