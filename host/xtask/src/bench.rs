//! `cargo xtask bench`: builds the crate `bench` and hands everything over to it.

use std::{ffi::OsString, process::Stdio};

use crate::{
    cargo,
    outcome::{Failure, Status},
};

/// What builds its programs, and what runs it. Its profile compiles ours and each peer as a whole program.
const BUILD: [&str; 7] = ["build", "--quiet", "--profile", "bench", "--package", "bench", "--bins"];
const RUN: [&str; 6] = ["run", "--quiet", "--profile", "bench", "--package", "bench"];

/// Entry of `cargo xtask bench`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    if !cargo::cargo(&BUILD).status().is_ok_and(|status| status.success()) {
        return Err(Failure::new(Status::Failed, "the bench does not build (the reason stands above)"));
    }
    let mut command = cargo::cargo(&RUN);
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
