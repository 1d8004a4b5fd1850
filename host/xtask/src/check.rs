//! `cargo xtask check`: builds the crate `checks`, or `litmus`, and hands everything over to it.

use std::{ffi::OsString, process::Stdio};

use crate::{
    cargo,
    outcome::{Failure, Status},
};

/// What runs it. Its profile unwinds, because mutated code is abandoned half-way.
pub(crate) const CARGO: [&str; 6] = ["run", "--quiet", "--profile", "checks", "--package", "checks"];

/// What runs the litmus tests, which are a crate of their own.
pub(crate) const LITMUS: [&str; 8] = ["run", "--quiet", "--profile", "checks", "--package", "litmus", "--", "--litmus"];

/// Entry of `cargo xtask check`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let is_litmus = |argument: &&OsString| *argument == "--litmus";
    let mut command = match arguments.iter().find(is_litmus) {
        Some(_) => cargo::cargo(&LITMUS),
        None => cargo::cargo(&[&CARGO[..], &["--"]].concat()),
    };
    command.args(arguments.iter().filter(|it| !is_litmus(it))).stdin(Stdio::null());
    let status =
        command.status().map_err(|error| Failure::new(Status::HostLacks, format!("cargo cannot be run: {error}")))?;
    match status.code() {
        Some(0) => Ok(Status::Passed),
        Some(2) => Ok(Status::BadInput),
        _ => Ok(Status::Failed),
    }
}
