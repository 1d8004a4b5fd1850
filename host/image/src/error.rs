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

    /// An error of the operating system about `what`, and what to do about it.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let next = match error.kind() {
            io::ErrorKind::NotFound => ": name a file that is there",
            io::ErrorKind::PermissionDenied => ": read it as root, or give a copy that you may read",
            io::ErrorKind::IsADirectory => ": name a file in it",
            io::ErrorKind::UnexpectedEof => ": the file ends too early, copy or make it again",
            io::ErrorKind::InvalidData => ": expected text, name another file",
            _ => "",
        };
        Self(format!("{what}: {error}{next}"))
    }
}
