//! How options are read where no person typed them, and the one line for what makes no sense.

use std::ffi::OsString;

use clap::{Parser, error::ErrorKind};

use crate::outcome::Failure;

/// Reads the arguments that follow `command`, which a test or another command wrote.
pub(crate) fn read<O: Parser>(command: &str, arguments: &[OsString]) -> Result<O, Failure> {
    O::try_parse_from(arguments).map_err(|error| refusal(&error, Some(command)))
}

/// Clap's first paragraph, as one line.
pub(crate) fn refusal(error: &clap::Error, command: Option<&str>) -> Failure {
    let (text, command) = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => ("no command given".to_owned(), command),
        ErrorKind::InvalidSubcommand => (error.to_string(), None),
        _ => (error.to_string(), command),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let line = lines.join(" ").replacen("error: ", "", 1);
    let command = command.map_or(String::new(), |command| format!(" {command}"));
    Failure::bad_input(format!("{line} (see cargo xtask{command} --help)"))
}
