//! `cargo xtask compare`: another kernel and ours, beside each other.

pub(crate) mod count;
mod linux;
pub(crate) mod programs;
pub(crate) mod selftests;
pub(crate) mod watched;

use clap::Subcommand;

use crate::outcome::{Failure, Status};

/// Another kernel and ours, beside each other
///
/// Exit status: 0 counted, or the same; 1 a kernel did not get ready, or a difference; 2 an option is wrong, 3 this host
/// lacks something.
#[derive(Subcommand)]
pub(crate) enum Command {
    Programs(programs::Options),
    Selftests(selftests::Options),
    Linux(linux::Options),
}

/// Entry of `cargo xtask compare`.
pub(crate) fn main(command: Command) -> Result<Status, Failure> {
    match command {
        Command::Programs(options) => programs::main(&options),
        Command::Selftests(options) => selftests::main(&options),
        Command::Linux(options) => linux::main(&options),
    }
}
