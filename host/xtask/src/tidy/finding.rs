//! A finding of a rule.

use std::fmt;

/// One thing that breaks a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Finding {
    /// From the workspace's root.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// What, and what was expected.
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}
