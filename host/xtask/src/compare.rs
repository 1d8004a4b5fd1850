//! `cargo xtask compare`: another kernel and ours, beside each other.

pub(crate) mod compared;
pub(crate) mod count;
mod linux;
pub(crate) mod programs;
pub(crate) mod selftests;
pub(crate) mod watched;

use clap::Subcommand;

use crate::{
    outcome::{Failure, Status},
    terminal,
};

/// Another kernel and ours, beside each other
///
/// Exit status: 0 counted, or the same; 1 a kernel did not get ready, or a difference; 2 an option
/// is wrong, 3 this host lacks something.
#[derive(Subcommand)]
pub(crate) enum Command {
    Programs(programs::Options),
    Selftests(selftests::Options),
    Linux(linux::Options),
}

/// Entry of `cargo xtask compare`.
pub(crate) fn main(command: Command) -> Result<Status, Failure> {
    let say = &mut |line: &str| eprintln!("{line}");
    let compared = match command {
        Command::Programs(options) => programs::compare(&options, say)?,
        Command::Selftests(options) => selftests::compare(&options, say)?,
        Command::Linux(options) => return linux::main(&options),
    };
    terminal::print(&compared.text);
    Ok(if compared.differing == 0 { Status::Passed } else { Status::Failed })
}
