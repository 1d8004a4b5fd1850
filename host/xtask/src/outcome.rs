//! What a command ends with: the exit statuses, and the one line of a command that could not do its work.

use std::{fmt, io, path::Path, process::ExitCode};

/// The exit statuses of every command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Every check passed.
    Passed,
    /// A check failed, or the machine ended without a verdict.
    Failed,
    /// An option or an input is not one.
    BadInput,
    /// This host lacks something; the line says what to install.
    HostLacks,
    /// No verdict in time.
    TimedOut,
    /// A program that was run ended with this.
    Program(u8),
}

impl Status {
    /// What a program's status comes to.
    pub(crate) fn program(status: i32) -> Status {
        match u8::try_from(status) {
            Ok(0) => Status::Passed,
            Ok(status) => Status::Program(status),
            Err(_) => Status::Failed,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(match status {
            Status::Passed => 0,
            Status::Failed => 1,
            Status::BadInput => 2,
            Status::HostLacks => 3,
            Status::TimedOut => 124,
            Status::Program(status) => status,
        })
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

    pub(crate) fn failed(line: impl Into<String>) -> Failure {
        Failure::new(Status::Failed, line)
    }

    pub(crate) fn host_lacks(line: impl Into<String>) -> Failure {
        Failure::new(Status::HostLacks, line)
    }

    pub(crate) fn bad_input(line: impl Into<String>) -> Failure {
        Failure::new(Status::BadInput, line)
    }

    /// A file that could not be read or written.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Failure {
        Failure::failed(format!("{}: {error}", path.display()))
    }
}

/// Of a file, whose path `fs_err` says.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::failed(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}
