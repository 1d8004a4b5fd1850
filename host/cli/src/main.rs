//! `vellum`: see, check and compare the page tables of any arm64 kernel, and read its registers in words.
#![forbid(unsafe_code)]

mod args;
mod audit;
mod check;
mod decode;
mod diff;
mod dump;
mod encode;
#[cfg(test)]
mod fuzz;
mod judge;
mod leaf;
mod manual;
mod markers;
mod only;
mod page;
mod permissions;
mod plan;
mod progress;
mod report;
mod runs;
mod say;
mod select;
mod space;
mod words;

use std::process::ExitCode;

use args::{Arguments, Command};
use clap::{CommandFactory, FromArgMatches};
use select::Failure;
use terminal::Ending;

fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // A live guest must be let go: while one is held the first signal (of Ctrl-C, of `timeout`, of a terminal that closes) only
    // makes the next read fail, and a second one ends the program.
    let handled = ctrlc::set_handler(|| {
        if image::interrupt::request() || !image::interrupt::is_held() {
            std::process::exit(130);
        }
    });
    if let Err(error) = handled {
        say::note(format!("Ctrl-C leaves a stopped guest stopped: {error}"));
    }
    let Some(command) = &arguments.command else {
        return match terminal::try_print(include_str!("help/first.txt")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(Ending::BadInput as u8),
        };
    };
    let status = match run(command) {
        Ok(status) => status,
        Err(Failure(line)) => {
            let name = matches.subcommand_name().unwrap_or_default();
            match image::interrupt::is_requested() {
                true => say::failure(line),
                false => say::failure(format_args!("{line} (see vellum {name} --help)")),
            }
            Ending::BadInput
        }
    };
    ExitCode::from(status as u8)
}

fn run(command: &Command) -> Result<Ending, Failure> {
    match command {
        Command::Dump(arguments) => dump::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Judge(arguments) => judge::run(arguments),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Decode(arguments) => decode::run(arguments),
        Command::Encode(arguments) => encode::run(arguments),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man { folder } => manual::pages(folder),
    }
}
