//! The texts of `--help`.

use std::io::{self, Write};

use crate::outcome::Status;

pub(crate) const OVERVIEW: &str = include_str!("help/overview.txt");
pub(crate) const RUN: &str = include_str!("help/run.txt");
pub(crate) const TEST: &str = include_str!("help/test.txt");
pub(crate) const TIDY: &str = include_str!("help/tidy.txt");

/// Prints a help text. A reader that has gone away (`| head`) is no error.
pub(crate) fn show(text: &str) -> Status {
    let _ = io::stdout().write_all(text.as_bytes());
    Status::Passed
}
