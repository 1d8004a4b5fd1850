//! What is wrong with a file, and where.

use std::fmt;

/// An error in a file of somebody else's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The file, as it was named.
    pub file: String,
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// What was met, in a word that other files share.
    pub construct: String,
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

/// An error that knows no place yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What was met, in a word that other files share.
    pub construct: String,
    /// What is wrong, and what was expected.
    pub what: String,
}

/// `construct` has a meaning that is not known here, or cannot be had.
pub fn refused(construct: impl Into<String>, what: impl Into<String>) -> Wrong {
    Wrong { construct: construct.into(), what: what.into() }
}

/// Not what the format asks for.
impl<T: Into<String>> From<T> for Wrong {
    fn from(what: T) -> Self {
        refused("form", what)
    }
}

/// An error that knows its line, but not yet its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct At {
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    wrong: Wrong,
}

impl At {
    /// `wrong` is in `line`.
    pub fn line(line: usize, wrong: impl Into<Wrong>) -> Self {
        Self { line, wrong: wrong.into() }
    }

    /// The same, in `file`.
    pub fn of(self, file: &str) -> Error {
        let Wrong { construct, what } = self.wrong;
        Error { file: file.to_owned(), line: self.line, construct, what }
    }

    /// What is wrong, and what was expected.
    pub fn what(&self) -> &str {
        &self.wrong.what
    }
}
