//! Why a machine cannot be read, in one line: what, where, what was expected.

use std::{fmt, io};

/// A source that cannot be opened or read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// An error with this line.
    pub fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }

    /// An error of the operating system about `what`.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self(format!("{what}: {error}"))
    }
}
