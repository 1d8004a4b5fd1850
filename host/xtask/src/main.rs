//! Every developer command: `cargo xtask run`, `test`, `check` and others.
//!
//! Standard output carries only what was asked for (the kernel's text, a test's result); whatever else there is to
//! say goes to standard error, one line each.
#![forbid(unsafe_code)]

mod api;
mod audit;
mod bare;
mod bench;
mod boot;
mod cargo;
mod check;
mod command;
mod compare;
mod demo;
mod dist;
mod fetch;
mod help;
mod outcome;
mod terminal;
mod test;
mod tidy;
mod toolchain;

use std::{ffi::OsString, process::ExitCode};

use clap::{Args, Parser};

use outcome::{Failure, Status};

/// Every developer command of Vellum; `cargo xtask COMMAND --help` teaches each by example
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_version_flag = true, disable_help_subcommand = true)]
enum Command {
    Run(Box<boot::options::Options>),
    Test(test::Options),
    /// The engine on the simulated machine, under every interleaving; litmus, zoo, code: other
    /// checks
    #[command(disable_help_flag = true)]
    Check(Rest),
    Audit(audit::Options),
    #[command(subcommand)]
    Compare(compare::Command),
    Demo(demo::Options),
    /// The engine beside its peers, in instructions; kernel, tlbis: costs of our kernel
    #[command(disable_help_flag = true)]
    Bench(Rest),
    /// Checks the house rules that no compiler checks
    ///
    /// Prints one line for each finding: path:line: what, and what was expected. Dependencies are
    /// held against the list in host/xtask/src/tidy/house.rs, and source files against the rules of
    /// CONTRIBUTING.md. Then it prints circles of files and folders, and figures that may only
    /// fall. It lowers those of host/xtask/src/tidy/figures.tsv that fell. A commit that raises one
    /// says `budget: CRATE +LINES, because …`, or `budget: ROOM FIGURE +N, because …`.
    #[command(after_help = "Exit status: 0 nothing found, 1 findings, 2 an option is wrong.")]
    Tidy,
    Api(api::Options),
    Fetch(fetch::Options),
    Dist(dist::Options),
}

/// Arguments of another program, whose help is its own.
#[derive(Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let ended = match Command::try_parse() {
        Ok(command) => run(command),
        Err(error) if !error.use_stderr() => {
            // A reader that has gone away is no error.
            let _ = error.print();
            Ok(Status::Passed)
        }
        Err(error) => Err(help::refusal(&error, std::env::args().nth(1).as_deref())),
    };
    match ended {
        Ok(status) => status.into(),
        Err(failure) => {
            eprintln!("cargo xtask: {failure}");
            failure.status.into()
        }
    }
}

fn run(command: Command) -> Result<Status, Failure> {
    match command {
        Command::Run(options) => boot::main(*options),
        Command::Test(options) => test::main(options),
        Command::Check(rest) => check::main(&rest.arguments),
        Command::Audit(options) => audit::main(&options),
        Command::Compare(command) => compare::main(command),
        Command::Demo(options) => demo::main(&options),
        Command::Bench(rest) => bench::main(&rest.arguments),
        Command::Tidy => tidy::main(),
        Command::Api(options) => api::main(&options),
        Command::Fetch(options) => fetch::main(options),
        Command::Dist(dist::Options {}) => dist::main(),
    }
}
