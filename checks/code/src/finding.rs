//! Why a piece of code is not right: what the rules of the machine found, or what the CPU could have done instead.

use std::fmt;

use machine::finding::Finding as RuleFinding;
use machine::machine::Outcome;
use thiserror::Error;

/// What was found, first of all.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Finding {
    /// The rules of the simulated machine.
    #[error("{0}")]
    Rule(Box<RuleFinding>),
    /// An instruction that could be fetched from elsewhere, or not at all.
    #[error("fetch: {0}")]
    Fetch(Access),
    /// A load or store that could go elsewhere, or fault.
    #[error("access: {0}")]
    Access(Access),
    /// A line of a cache that could be in the way.
    #[error("cache: {0}")]
    Cache(String),
    /// A register write whose effect was relied on before a context synchronization event.
    #[error("sync: {0}")]
    Unsynchronized(String),
    /// An event that another CPU may have ahead of a store.
    #[error("event: {0}")]
    Early(String),
    /// The end is not what it should be.
    #[error("end: {0}")]
    End(String),
    /// What is no part of A64 as it is known here, or has no value here.
    #[error("{0}")]
    Unknown(String),
}

/// An access, and everything that it could have come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Virtual address.
    pub address: u64,
    /// At least two, or a fault.
    pub outcomes: Vec<Outcome>,
}

impl Finding {
    /// In a word: the rule's number, or what it is about.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Rule(finding) => finding.rule.label(),
            Self::Fetch(_) => "fetch",
            Self::Access(_) => "access",
            Self::Cache(_) => "cache",
            Self::Unsynchronized(_) => "sync",
            Self::Early(_) => "event",
            Self::End(_) => "end",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} could", self.address)?;
        for (at, outcome) in self.outcomes.iter().enumerate() {
            let separator = if at == 0 { "" } else { " or" };
            match outcome {
                Outcome::Translated(physical) => write!(f, "{separator} be at {physical:#x}")?,
                Outcome::Fault(fault) => {
                    write!(f, "{separator} take a {:?} fault of level {}", fault.kind, fault.level)?
                }
            }
        }
        Ok(())
    }
}

/// A finding, and the instruction at which it was made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("CPU {cpu} at {place:#x} ({name}): {finding}")]
pub struct Found {
    /// CPU.
    pub cpu: usize,
    /// Address of the instruction.
    pub place: u64,
    /// What it is called.
    pub name: String,
    /// The finding.
    pub finding: Finding,
}
