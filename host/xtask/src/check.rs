//! `cargo xtask check`: builds the crate `checks`, `litmus`, `zoo` or `code`, and hands everything over to it.

use std::{ffi::OsString, process::Stdio};

use crate::{
    cargo,
    outcome::{Failure, Status},
};

/// What runs it. Its profile unwinds, because mutated code is abandoned half-way.
pub(crate) const CARGO: [&str; 6] = ["run", "--quiet", "--profile", "checks", "--package", "checks"];

/// What runs the litmus tests, which are a crate of their own.
pub(crate) const LITMUS: [&str; 8] = ["run", "--quiet", "--profile", "checks", "--package", "litmus", "--", "--litmus"];

/// What runs the zoo, which is one too.
pub(crate) const ZOO: [&str; 8] = ["run", "--quiet", "--profile", "checks", "--package", "zoo", "--", "--zoo"];

/// What runs the kernel's machine code, likewise. It needs the kernel.
pub(crate) const CODE: [&str; 8] = ["run", "--quiet", "--profile", "checks", "--package", "code", "--", "--code"];

/// Entry of `cargo xtask check`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let others = [("--litmus", &LITMUS), ("--zoo", &ZOO), ("--code", &CODE)];
    let asked: Vec<_> = others.into_iter().filter(|(flag, _)| has(flag)).collect();
    let (mut command, flag) = match asked[..] {
        [] => (cargo::cargo(&[&CARGO[..], &["--"]].concat()), ""),
        [(flag, call)] => (cargo::cargo(call), flag),
        [(one, _), (other, _), ..] => {
            return Err(Failure::bad_input(format!("{one} and {other} are two different checks")));
        }
    };
    if flag == "--code" && !["--kernel", "--help", "-h"].into_iter().any(has) {
        let kernel = cargo::build(cargo::Program::Kernel, &mut |line| eprintln!("{line}"))?;
        command.arg("--kernel").arg(kernel.elf);
    }
    command.args(arguments.iter().filter(|it| *it != flag)).stdin(Stdio::null());
    let status =
        command.status().map_err(|error| Failure::new(Status::HostLacks, format!("cargo cannot be run: {error}")))?;
    match status.code() {
        Some(0) => Ok(Status::Passed),
        Some(2) => Ok(Status::BadInput),
        _ => Ok(Status::Failed),
    }
}
