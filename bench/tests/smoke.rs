//! Every row with every contender, at a tiny size: benches that run, and contenders that agree.

use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).output().expect("the bench runs")
}

#[test]
fn all_contenders_agree() {
    let output = bench(&["--quick"]);
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.ends_with("all contenders agree\n"), "{said}");
}

#[test]
fn a_host_without_valgrind_is_told_in_one_line() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    let output = command.args(["map-page/4k"]).env("PATH", "").output().expect("the bench runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.lines().count() == 1 && errors.contains("valgrind"), "{errors}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for arguments in [&["--record", "4k"][..], &["--quick", "--json"], &["no-such-row"], &["--only", "nobody"], &["-x"]]
    {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{arguments:?}");
    }
}
