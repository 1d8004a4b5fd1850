//! How bad a problem of the input is.

use core::fmt;

/// Whether the kernel can go on in spite of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Survived: the line says what was done instead.
    Warning,
    /// The kernel cannot boot on this input.
    Fatal,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Fatal => "fatal",
        })
    }
}
