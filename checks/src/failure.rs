//! What a run can come to that it must not.

use std::fmt;

use machine::finding::Finding;

/// What is wrong.
#[derive(Clone, PartialEq, Debug)]
pub enum Wrong {
    /// A rule of the architecture is broken.
    Rule(Box<Finding>),
    /// An access can see what it must not.
    Seen(String),
    /// A program finds something wrong, or the engine panics.
    Program(String),
    /// The programs do not come to an end.
    Endless(u64),
    /// The simulated machine contradicts itself.
    Machine(String),
}

/// What went wrong, where in the run.
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// What.
    pub wrong: Wrong,
    /// CPU of the event.
    pub cpu: u8,
    /// Number of the event.
    pub event: u64,
}

impl Failure {
    /// A rule is broken.
    pub(crate) fn of_rule(finding: Finding) -> Self {
        let (cpu, event) = (finding.cpu, finding.event);
        Self { wrong: Wrong::Rule(Box::new(finding)), cpu, event }
    }

    /// In a few characters: the number of the rule, or what else it is.
    pub fn label(&self) -> &'static str {
        match &self.wrong {
            Wrong::Rule(finding) => finding.rule.label(),
            Wrong::Seen(_) => "seen",
            Wrong::Program(_) => "program",
            Wrong::Endless(_) => "endless",
            Wrong::Machine(_) => "machine",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, event, .. } = self;
        match &self.wrong {
            Wrong::Rule(finding) => write!(f, "{finding}"),
            Wrong::Seen(text) => write!(f, "At event {event}, CPU {cpu} may see what it must not: {text}"),
            Wrong::Program(text) => write!(f, "At event {event}, on CPU {cpu}: {text}"),
            Wrong::Endless(events) => write!(f, "After {events} events the programs have not come to an end"),
            Wrong::Machine(text) => write!(f, "At event {event}, the simulated machine contradicts itself: {text}"),
        }
    }
}
