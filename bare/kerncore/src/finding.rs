//! What was wrong with the input, as values: each is one line for people, and says whether the kernel can go on.

use core::fmt;

use thiserror::Error;

use crate::choice::problem as choice;
use crate::command_line::problem as command_line;
use crate::devicetree::problem as devicetree;
use crate::list::List;
use crate::memory_map::problem as memory_map;
pub use crate::severity::Severity;

/// One problem of the input, whichever part of it was looked at. Its Display is one line, without the severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Finding<'a> {
    /// In the device tree.
    #[error("device tree: {0}")]
    DeviceTree(devicetree::Problem<'a>),
    /// On the kernel's command line.
    #[error("command line: {0}")]
    CommandLine(command_line::Problem<'a>),
    /// In what the CPU was asked for.
    #[error("command line: {0}")]
    Choice(choice::Problem),
    /// In the layout of memory.
    #[error("memory: {0}")]
    Memory(memory_map::Problem),
}

impl Finding<'_> {
    /// Whether the kernel can go on.
    pub fn severity(&self) -> Severity {
        match self {
            Self::DeviceTree(problem) => problem.severity(),
            Self::CommandLine(_) | Self::Choice(_) => Severity::Warning,
            Self::Memory(problem) => problem.severity(),
        }
    }
}

impl<'a> From<devicetree::Problem<'a>> for Finding<'a> {
    fn from(problem: devicetree::Problem<'a>) -> Self {
        Self::DeviceTree(problem)
    }
}

impl<'a> From<command_line::Problem<'a>> for Finding<'a> {
    fn from(problem: command_line::Problem<'a>) -> Self {
        Self::CommandLine(problem)
    }
}

impl From<choice::Problem> for Finding<'_> {
    fn from(problem: choice::Problem) -> Self {
        Self::Choice(problem)
    }
}

impl From<memory_map::Problem> for Finding<'_> {
    fn from(problem: memory_map::Problem) -> Self {
        Self::Memory(problem)
    }
}

/// How many findings are kept; of those beyond it only the number is, except that a fatal one always finds a place.
pub const FINDINGS: usize = 32;

/// The findings in the order they were made; under 3 KiB, so keep it in a static and lend it.
pub struct Findings<'a> {
    list: List<Option<Finding<'a>>, FINDINGS>,
    dropped: u32,
}

impl<'a> Findings<'a> {
    /// Nothing found yet.
    pub const fn new() -> Self {
        Self { list: List::new(None), dropped: 0 }
    }

    /// Adds a finding.
    pub fn push(&mut self, finding: impl Into<Finding<'a>>) {
        let finding = finding.into();
        if self.list.push(Some(finding)).is_ok() {
            return;
        }
        self.dropped = self.dropped.saturating_add(1);
        // The reason why the kernel stops must be seen, whatever noise came before it.
        let is_first_fatal = finding.severity() == Severity::Fatal && self.fatal().is_none();
        if let (true, Some(last)) = (is_first_fatal, self.list.last_mut()) {
            *last = Some(finding);
        }
    }

    /// All that were kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Finding<'a>> {
        self.list.iter().flatten()
    }

    /// The first one that keeps the kernel from booting.
    pub fn fatal(&self) -> Option<&Finding<'a>> {
        self.iter().find(|finding| finding.severity() == Severity::Fatal)
    }

    /// How many more there were than could be kept.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }
}

impl Default for Findings<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// A line per finding: `warning: device tree: …`.
impl fmt::Display for Findings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.iter() {
            writeln!(f, "{}: {finding}", finding.severity())?;
        }
        if self.dropped > 0 {
            writeln!(f, "warning: and {} more findings than could be kept", self.dropped)?;
        }
        Ok(())
    }
}
