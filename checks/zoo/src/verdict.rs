//! Whether a case is caught where its file says so, and silent where it was repaired.

use std::collections::{BTreeMap, BTreeSet};

use checks::parallel;

use crate::case::{Case, Version};
use crate::configuration::{Configuration, Configurations, summary};
use crate::engine::{self, Killed};
use crate::error::Error;
use crate::misses::Misses;
use crate::orders::{Explored, Found, Program};

/// What came of a case.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// For each configuration what its buggy version was found by.
    pub found: BTreeMap<Configuration, BTreeSet<Found>>,
    /// Configurations in which the rules are known not to find what they should.
    pub holes: Vec<Configuration>,
    /// Versions and configurations that were run.
    pub runs: u64,
    /// Traces that were judged.
    pub traces: u64,
    /// Nothing is found in the fixed version.
    pub is_silent: bool,
    /// The story of the first finding.
    pub story: Option<String>,
    /// The engine's mutants.
    pub engine: Vec<Killed>,
    /// What is not as the file says.
    pub misses: Misses,
}

/// Runs both versions of a case, and its counterparts in the engine, in all of `configurations`. Errors: a line that makes
/// no sense.
pub fn run(case: &Case, configurations: &Configurations) -> Result<Verdict, Error> {
    let mut verdict = Verdict { is_silent: true, ..Verdict::default() };
    for configuration in Configuration::all().filter(|it| configurations.contains(*it)) {
        for version in Version::BOTH {
            let explored = Program::new(case, version, configuration)?.explore()?;
            verdict.add(case, version, configuration, explored);
        }
    }
    for counterpart in &case.engine {
        let killed = engine::hunt(counterpart, configurations);
        verdict.engine.push(killed);
    }
    Ok(verdict)
}

/// Runs cases, in their order; `tell` hears of each that is done. Errors: a line that makes no sense.
pub fn run_all(
    cases: &[Case],
    configurations: &Configurations,
    tell: &(dyn Fn(&Case) + Sync),
) -> Result<Vec<Verdict>, Error> {
    parallel::each(cases, |case| run(case, configurations), |case, _| tell(case)).collect()
}

impl Verdict {
    fn add(&mut self, case: &Case, version: Version, configuration: Configuration, explored: Explored) {
        self.runs += 1;
        self.traces += explored.traces;
        let expected = |is_hole| {
            let all =
                case.expected(configuration).filter(move |(_, it)| version == Version::Buggy && it.is_hole == is_hole);
            all.map(|(at, it)| Found { at: at.clone(), rule: it.rule.clone() }).collect::<BTreeSet<_>>()
        };
        let (expected, holes) = (expected(false), expected(true));
        let found: BTreeSet<Found> = explored.found.keys().cloned().collect();
        self.is_silent &= version == Version::Buggy || found.is_empty();
        let mut miss = |what: String| self.misses.add(format!("{}: {what}", version.name()), configuration);
        for (it, (_, story)) in explored.found.iter().filter(|(it, _)| !expected.contains(it)) {
            let what = if holes.contains(it) { "found, which the file calls a hole" } else { "found, not expected" };
            miss(format!("{} at line {} {what}:\n{story}", it.rule, it.at.line));
        }
        for it in expected.difference(&found) {
            miss(format!("{} expected at line {}, not found", it.rule, it.at.line));
        }
        if version == Version::Buggy {
            self.holes.extend((!holes.is_empty()).then_some(configuration));
            self.story = self.story.take().or_else(|| explored.found.into_values().next().map(|(_, story)| story));
            self.found.insert(configuration, found);
        }
    }

    /// Everything that is not as the file says, in words.
    pub fn misses(&self) -> Vec<String> {
        let engine = self.engine.iter().flat_map(|it| it.misses.told());
        self.misses.told().chain(engine).collect()
    }

    /// By what the buggy version was found, in one line: `V2 bbm 0, V11 bbm 1, legal bbm 2 3`.
    pub fn summary(&self) -> String {
        let told = |(configuration, found): (&Configuration, &BTreeSet<Found>)| {
            let rules: BTreeSet<&str> = found.iter().map(|it| it.rule.as_str()).collect();
            let is_hole = rules.is_empty() && self.holes.contains(configuration);
            let rules = rules.into_iter().collect::<Vec<_>>().join(" or ");
            (*configuration, if is_hole { String::from("hole") } else { rules })
        };
        summary(self.found.iter().map(told))
    }
}
