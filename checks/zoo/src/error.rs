//! What is wrong with a case's file, in one line.

use std::fmt;

/// A line of a file that makes no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The file.
    pub file: String,
    /// Its line, from 1; 0 for the whole file.
    pub line: usize,
    /// What stands there, and what was expected.
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
