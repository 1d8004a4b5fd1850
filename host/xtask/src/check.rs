//! `cargo xtask check`: builds the program of all checks, and hands everything over to it.

pub(crate) mod long;

use std::ffi::OsString;

use crate::{
    bare, cargo,
    outcome::{Failure, Status},
};

/// What cargo is asked for. The profile unwinds, because mutated code is abandoned half-way.
pub(crate) const CALL: [&str; 7] = ["run", "--quiet", "--profile", "checks", "--package", "check", "--"];

/// Entry of `cargo xtask check`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let is =
        |name: &str| arguments.first().is_some_and(|first| first.to_string_lossy().trim_start_matches("--") == name);
    if is("all") {
        return long::main(&arguments[1..]);
    }
    let mut command = cargo::cargo(&CALL);
    command.args(arguments);
    let needs_no_kernel = ["--kernel", "--help", "-h"];
    if is("code") && !arguments.iter().any(|argument| needs_no_kernel.iter().any(|it| argument == it)) {
        let kernel = bare::build(bare::Program::Kernel, &mut |line| eprintln!("{line}"))?;
        command.arg("--kernel").arg(kernel.elf);
    }
    cargo::hand_over(command)
}
