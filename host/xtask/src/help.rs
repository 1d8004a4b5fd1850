//! The texts of `--help`.

use crate::{outcome::Status, terminal};

pub(crate) const OVERVIEW: &str = include_str!("help/overview.txt");
pub(crate) const RUN: &str = include_str!("help/run.txt");
pub(crate) const TEST: &str = include_str!("help/test.txt");
pub(crate) const TIDY: &str = include_str!("help/tidy.txt");
pub(crate) const FETCH: &str = include_str!("help/fetch.txt");
pub(crate) const DIST: &str = include_str!("help/dist.txt");

/// Prints a help text.
pub(crate) fn show(text: &str) -> Status {
    terminal::print(text);
    Status::Passed
}
