//! Why a machine cannot be read, in one line: what, where, what was expected.

use std::{fmt, io};

/// A source that cannot be opened or read.
#[derive(Clone, PartialEq, Eq, Debug)]
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
