//! Runs a test on CPUs without and with FEAT_ETS2, and says in a word what came of it.

use std::fmt;

use machine::machine::Outcome;
use machine::registers::Ets;

use crate::explore::{Explored, Taken, explore};
use crate::test::{Profile, Quantifier, Test};

/// States per exploration, at most.
pub const LIMIT: u64 = 2_000_000;

/// What came of a test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Result {
    /// A final state fulfils the condition.
    Reached,
    /// None does.
    Never,
    /// Every final state fulfils it.
    Always,
    /// Some do not.
    NotAlways,
    /// The exploration was too large.
    TooLarge,
    /// No thread ever comes to its end.
    Lost,
    /// The file cannot be read.
    Unread,
}

impl Result {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Reached, "reached"),
        (Self::Never, "never"),
        (Self::Always, "always"),
        (Self::NotAlways, "not always"),
        (Self::TooLarge, "too large"),
        (Self::Lost, "lost"),
        (Self::Unread, "unread"),
    ];

    /// From its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.1 == word).map(|it| it.0)
    }

    /// Every word, as a message lists them.
    pub fn words() -> String {
        Self::ALL.map(|it| it.1).join(", ")
    }

    /// True when something was found out.
    pub fn has_run(self) -> bool {
        !matches!(self, Self::TooLarge | Self::Lost | Self::Unread)
    }
}

impl fmt::Display for Result {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|it| it.0 == *self).map_or("", |it| it.1);
        f.pad(word)
    }
}

/// What a test came to on one kind of CPU.
#[derive(Clone, Debug)]
pub struct Ran {
    /// In a word.
    pub result: Result,
    /// In full.
    pub explored: Explored,
}

impl Ran {
    /// The steps that show it: to the state that fulfils the condition, or that does not where all should.
    pub fn story(&self) -> Option<&[Taken]> {
        match self.result {
            Result::Reached => self.explored.holds.as_deref(),
            Result::NotAlways => self.explored.fails.as_deref(),
            _ => None,
        }
    }
}

/// Runs `test` on CPUs that have, or have not, FEAT_ETS2; both have BBM level 0, so that the rules about
/// break-before-make have their say.
pub fn run(test: &Test, ets: Ets) -> Ran {
    let explored = explore(test, Profile { ets, bbm: 0 }, LIMIT);
    let result = match (test.quantifier, explored.holds.is_some(), explored.fails.is_some()) {
        (Quantifier::Exists, true, _) => Result::Reached,
        (Quantifier::Forall, _, true) => Result::NotAlways,
        _ if explored.is_cut => Result::TooLarge,
        (_, false, false) => Result::Lost,
        (Quantifier::Exists, false, true) => Result::Never,
        (Quantifier::Forall, true, false) => Result::Always,
    };
    Ran { result, explored }
}

/// The way to a final state, a line for each step.
pub fn tell(test: &Test, story: &[Taken]) -> String {
    let line = |(cpu, place, way): &Taken| {
        let text = test.source.get(place).map_or("?", String::as_str);
        let way = match way {
            None => String::new(),
            Some(Outcome::Translated(output)) => format!("at {output:#x}"),
            Some(Outcome::Fault(fault)) => {
                let stage = if fault.is_stage2 { " of stage 2" } else { "" };
                format!("{:?} fault, level {}{stage}", fault.kind, fault.level)
            }
        };
        format!("{}\n", format!("    CPU {cpu}  {text:<24}  {way}").trim_end())
    };
    story.iter().map(line).collect()
}
