//! `cargo xtask bench`: builds the crate `bench` and hands everything over to it, but for what kernels cost.

mod kernel;
mod tlbis;

use std::ffi::OsString;

use crate::{
    cargo,
    outcome::{Failure, Status},
};

/// What builds its programs, and what runs it. Its profile compiles ours and each peer as a whole program.
const BUILD: [&str; 7] = ["build", "--quiet", "--profile", "bench", "--package", "bench", "--bins"];
const RUN: [&str; 6] = ["run", "--quiet", "--profile", "bench", "--package", "bench"];

/// Entry of `cargo xtask bench`. Its help is its own.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    if let Some((_, rest)) = arguments.split_first().filter(|(what, _)| *what == "kernel") {
        return kernel::main(rest);
    }
    if let Some((_, rest)) = arguments.split_first().filter(|(what, _)| *what == "tlbis") {
        return tlbis::main(rest);
    }
    cargo::build_here("the bench", cargo::cargo(&BUILD))?;
    let mut command = cargo::cargo(&RUN);
    command.arg("--").args(arguments);
    cargo::hand_over(command)
}
