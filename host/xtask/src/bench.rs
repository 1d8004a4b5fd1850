//! `cargo xtask bench`: builds the crate `bench` and hands everything over to it.

use std::{ffi::OsString, process::Stdio};

use crate::{
    cargo,
    outcome::{Failure, Status},
};

/// What runs it. Its profile compiles ours and peers as whole programs.
const CARGO: [&str; 6] = ["run", "--quiet", "--profile", "bench", "--package", "bench"];

/// Entry of `cargo xtask bench`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let mut command = cargo::cargo(&CARGO);
    command.arg("--").args(arguments).stdin(Stdio::null());
    let status =
        command.status().map_err(|error| Failure::new(Status::HostLacks, format!("cargo cannot be run: {error}")))?;
    match status.code() {
        Some(0) => Ok(Status::Passed),
        Some(2) => Ok(Status::BadInput),
        Some(3) => Ok(Status::HostLacks),
        _ => Ok(Status::Failed),
    }
}
