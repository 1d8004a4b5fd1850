//! What is wrong with a file, and where.

use std::fmt;

/// An error in a file of somebody else's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The file, as it was named.
    pub file: String,
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for Error {}

/// An error that knows its line, but not yet its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct At {
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl At {
    /// `what` is wrong in `line`.
    pub fn line(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }

    /// The same, in `file`.
    pub fn of(self, file: &str) -> Error {
        Error { file: file.to_owned(), line: self.line, what: self.what }
    }
}
