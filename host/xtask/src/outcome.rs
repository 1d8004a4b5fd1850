//! What a command ends with: the exit statuses, and the one line of a command that could not do its work.

use std::{fmt, io, path::Path, process::ExitCode};

/// The exit statuses of every command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Every check passed.
    Passed = 0,
    /// A check failed, or the machine ended without a verdict.
    Failed = 1,
    /// An option or an input is not one.
    BadInput = 2,
    /// This host lacks something; the line says what to install.
    HostLacks = 3,
    /// No verdict in time.
    TimedOut = 124,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status as u8)
    }
}

/// Why a command stops, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) line: String,
}

impl Failure {
    pub(crate) fn new(status: Status, line: impl Into<String>) -> Failure {
        Failure { status, line: line.into() }
    }

    pub(crate) fn bad_input(line: impl Into<String>) -> Failure {
        Failure::new(Status::BadInput, line)
    }

    /// A file that could not be read or written.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Failure {
        Failure::new(Status::Failed, format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}
