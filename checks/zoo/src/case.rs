//! A case: a bug and its repair as one program, in which some steps belong to one version alone.

use std::collections::BTreeSet;

use crate::configuration::{Configuration, summary};
use crate::engine::Counterpart;
use crate::expected::Expected;

/// Which of the two programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// As it was: lines without a mark and those with `-`.
    Buggy,
    /// As it was repaired: lines without a mark and those with `+`.
    Fixed,
}

impl Version {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Buggy, Self::Fixed];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buggy => "buggy",
            Self::Fixed => "fixed",
        }
    }
}

/// What a line does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// A line of the trace's machine: `cpu …`.
    Cpu(Vec<String>),
    /// What every CPU announces, beside what its own line says.
    Cpus(Vec<String>),
    /// Words that are in memory at first: `memory …`.
    Memory(Vec<String>),
    /// An event of a CPU, as a trace has it.
    Event(u8, Vec<String>),
    /// A name gets a value: by a CPU as it comes to this line, or once at the beginning.
    Let(Option<u8>, String, String),
    /// A CPU waits until this is not zero.
    Await(u8, String),
    /// From here on CPUs go on independently.
    Together,
    /// Until here: all of them have come to this line.
    Then,
}

impl Act {
    /// The CPU that does it.
    pub const fn cpu(&self) -> Option<u8> {
        match self {
            Self::Event(cpu, _) | Self::Await(cpu, _) | Self::Let(Some(cpu), ..) => Some(*cpu),
            _ => None,
        }
    }
}

/// One line of a case, or of a setup that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its place.
    pub at: Place,
    /// The only version that has it.
    pub only: Option<Version>,
    /// What it does.
    pub act: Act,
    /// How it is repeated.
    pub repeated: Option<Repetition>,
    /// What must be found there.
    pub expected: Vec<Expected>,
    /// Its comment.
    pub comment: Option<String>,
}

/// A line that stands for several: once for each number from `first` up to `end`, which is not one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Repetition {
    /// The name that counts.
    pub name: String,
    /// An expression.
    pub first: String,
    /// An expression.
    pub end: String,
}

/// File and line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// File, as it was opened.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
}

/// A case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its name: that of the file.
    pub name: String,
    /// Where it happened: project, year, commit.
    pub happened: String,
    /// What happened.
    pub story: String,
    /// Why nothing is wrong in the configurations in which nothing is expected.
    pub legal: Option<String>,
    /// The same fault made in our engine.
    pub engine: Vec<Counterpart>,
    /// Its lines, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// By what it must be found, in one line: `V2 bbm 0, V11 bbm 1, legal bbm 2 3`.
    pub fn summary(&self) -> String {
        let told = |configuration| {
            let rules: BTreeSet<&str> =
                self.expected(configuration).filter(|(_, it)| !it.is_hole).map(|(_, it)| it.rule.as_str()).collect();
            let is_hole = rules.is_empty() && self.expected(configuration).next().is_some();
            (
                configuration,
                if is_hole { String::from("hole") } else { rules.into_iter().collect::<Vec<_>>().join(" or ") },
            )
        };
        summary(Configuration::all().map(told))
    }

    /// What must be found in `configuration`: lines of the file and rules, with those that are holes.
    pub fn expected(&self, configuration: Configuration) -> impl Iterator<Item = (&Place, &Expected)> {
        self.steps
            .iter()
            .flat_map(|step| step.expected.iter().map(move |it| (&step.at, it)))
            .filter(move |(_, it)| it.configurations.contains(configuration))
    }
}
