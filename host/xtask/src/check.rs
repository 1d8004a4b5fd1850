//! `cargo xtask check`: builds the crate `checks`, `litmus` or `zoo`, and hands everything over to it.

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

/// Entry of `cargo xtask check`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let asks = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let (call, flag) = match () {
        () if asks("--litmus") => (LITMUS.to_vec(), "--litmus"),
        () if asks("--zoo") => (ZOO.to_vec(), "--zoo"),
        () => ([&CARGO[..], &["--"]].concat(), ""),
    };
    let mut command = cargo::cargo(&call);
    command.args(arguments.iter().filter(|it| *it != flag)).stdin(Stdio::null());
    let status =
        command.status().map_err(|error| Failure::new(Status::HostLacks, format!("cargo cannot be run: {error}")))?;
    match status.code() {
        Some(0) => Ok(Status::Passed),
        Some(2) => Ok(Status::BadInput),
        _ => Ok(Status::Failed),
    }
}
