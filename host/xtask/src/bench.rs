//! `cargo xtask bench`: builds the crate `bench` and hands everything over to it, but for what kernels cost.

mod kernel;
mod tlbis;

use std::ffi::OsString;

use clap::Parser;

use crate::{
    cargo, help,
    outcome::{Failure, Status},
};

/// What builds its programs, and what runs it. Its profile compiles ours and each peer as a whole program.
const BUILD: [&str; 7] = ["build", "--quiet", "--profile", "bench", "--package", "bench", "--bins"];
const RUN: [&str; 6] = ["run", "--quiet", "--profile", "bench", "--package", "bench"];

/// Costs of our kernel
#[derive(Parser)]
#[command(no_binary_name = true, bin_name = "cargo xtask bench", disable_help_subcommand = true)]
enum Command {
    Kernel(kernel::Options),
    Tlbis(tlbis::Options),
}

/// Entry of `cargo xtask bench`, whose help is the other program's.
pub(crate) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    if arguments.first().is_some_and(|what| what == "kernel" || what == "tlbis") {
        return match Command::try_parse_from(arguments) {
            Ok(Command::Kernel(options)) => kernel::main(&options),
            Ok(Command::Tlbis(options)) => tlbis::main(&options),
            Err(error) if !error.use_stderr() => Ok(error.print().map(|()| Status::Passed)?),
            Err(error) => Err(help::refusal(&error, Some("bench"))),
        };
    }
    cargo::build_here("the bench", cargo::cargo(&BUILD))?;
    let mut command = cargo::cargo(&RUN);
    command.arg("--").args(arguments);
    cargo::hand_over(command)
}
