//! What is made of the source of `--help`: manual pages, and words that shells complete.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Status;
use crate::args::Arguments;
use crate::select::Failure;

/// Prints what a shell reads.
pub(crate) fn completions(shell: Shell) -> Result<Status, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "vellum", &mut script);
    terminal::try_print(String::from_utf8_lossy(&script))?;
    Ok(Status::Clean)
}

/// Writes `vellum.1`, and one for each command.
pub(crate) fn pages(folder: &Path) -> Result<Status, Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}: name a folder to write to", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), folder).map_err(failed)?;
    Ok(Status::Clean)
}
