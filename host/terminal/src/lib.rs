//! What command-line programs share: how they begin and end, what they print, how long work shows that it goes on.
//!
//! ```text
//! arguments ──run──▶ options ──the program's work──▶ Ending, or one line of what makes no sense ──▶ exit status
//! ```
#![forbid(unsafe_code)]

mod table;
mod watch;

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

pub use table::Table;
pub use watch::Watch;

/// How a program ends: its exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Nothing is wrong.
    Clean = 0,
    /// Something is.
    Wrong = 1,
    /// The command line or a file makes no sense.
    BadInput = 2,
}

impl Ending {
    /// [`Ending::Clean`], or [`Ending::Wrong`].
    pub const fn of(is_clean: bool) -> Self {
        if is_clean { Self::Clean } else { Self::Wrong }
    }
}

/// Runs a program whose options are `O`: its `work` gets them, and says how it ended, or what makes no sense in one line.
pub fn run<O: Parser>(work: impl FnOnce(O) -> Result<Ending, String>) -> ExitCode {
    let ended = match O::try_parse() {
        Ok(options) => work(options),
        Err(help) if !help.use_stderr() => {
            print(help);
            Ok(Ending::Clean)
        }
        Err(error) => Err(one_line(&error.to_string())),
    };
    let ending = ended.unwrap_or_else(|what| {
        eprintln!("{}: {what}", O::command().get_name());
        Ending::BadInput
    });
    ExitCode::from(ending as u8)
}

/// clap's first paragraph, without its `error:`.
fn one_line(error: &str) -> String {
    let text = error.strip_prefix("error: ").unwrap_or(error);
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    format!("{} (see --help)", lines.join(" "))
}

/// Prints to standard output. A reader that has gone away (`| head`) is no error.
///
/// # Errors
/// A disk that is full, say.
pub fn try_print(text: impl fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).or_else(unless_unread)
}

/// What is to be said of a write to standard output that failed: nothing where the reader has gone away (`| head`).
///
/// # Errors
/// Any other, with what to do about it.
pub fn unless_unread(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::BrokenPipe {
        return Ok(());
    }
    Err(io::Error::new(error.kind(), format!("standard output: {error}: make room there, or write elsewhere")))
}

/// Prints to standard output, which may fail unnoticed: the program's exit status says the same.
pub fn print(text: impl fmt::Display) {
    let _ = try_print(text);
}

/// `1 case`, `2 cases`
pub fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line() {
        let error = "error: the following are missing:\n  --kernel <FILE>\n\nUsage: code --kernel <FILE>\n";
        assert_eq!(one_line(error), "the following are missing: --kernel <FILE> (see --help)");
    }

    #[test]
    fn things_are_counted() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "case")), ["0 cases", "1 case", "2 cases"]);
    }
}
