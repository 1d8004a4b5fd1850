//! The mutants of the engine, and who kills each. They are not written but found: every call of the platform that any
//! trial passes, and everything that can be done to a call of its class.

use std::collections::BTreeMap;
use std::fmt;

use crate::explore::random;
use crate::mutation::{Class, Mutation, Site};
use crate::parallel;
use crate::suite::{self, Trial};
use crate::workloads::Size;

/// Drawn parameters beside the fixed ones.
const DRAWN: u64 = 6;
/// Random schedules for a mutant that the plainest one spares.
const SCHEDULES: u64 = 12;
/// States after which an exploration for a mutant gives up.
const STATES: u64 = 4_000;

/// What came of a mutant.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The mutant.
    pub mutation: Mutation,
    /// Workload, seed, and what it was caught by; none if it lives.
    pub killer: Option<(&'static str, u64, String)>,
    /// How many trials pass its call.
    pub trials: usize,
}

/// The trials that pass each call, in the order in which they are to be tried.
pub struct Survey {
    trials: Vec<Trial>,
    calls: BTreeMap<(Site, Class), Vec<usize>>,
}

impl Survey {
    /// Runs every trial once, without a mutant. The error is a trial that fails so.
    pub fn new() -> Result<Self, String> {
        let mut trials = suite::trials(Size::Small, DRAWN);
        trials.extend(suite::trials(Size::Long, DRAWN));
        Self::of(trials)
    }

    /// The same for some trials alone.
    pub fn of(trials: Vec<Trial>) -> Result<Self, String> {
        let mut calls: BTreeMap<(Site, Class), Vec<usize>> = BTreeMap::new();
        for (number, trial) in trials.iter().enumerate() {
            let (ran, sites) = suite::survey(&trial.prepare(None));
            if let Some(caught) = ran.caught {
                return Err(format!("{} with seed {}: {}", trial.workload.name, trial.seed, caught.failure));
            }
            for call in sites {
                calls.entry(call).or_default().push(number);
            }
        }
        // Only the engine's calls are mutated: those of the programs go another way.
        calls.retain(|(site, _), _| site.file().contains("pagetable"));
        Ok(Self { trials, calls })
    }

    /// Every mutant.
    pub fn mutants(&self) -> Vec<Mutation> {
        let calls = self.calls.keys();
        calls
            .flat_map(|(site, class)| {
                class.changes().into_iter().map(|change| Mutation { site, class: *class, change })
            })
            .collect()
    }

    /// How many calls there are.
    pub fn count_calls(&self) -> usize {
        self.calls.len()
    }

    /// Hunts every mutant; `tell` hears of each verdict as it comes. In the order of [`Survey::mutants`].
    pub fn hunt_all(&self, tell: &(dyn Fn(&Verdict) + Sync)) -> Vec<Verdict> {
        parallel::each(&self.mutants(), |mutation| self.hunt(*mutation), |_, verdict| tell(verdict)).collect()
    }

    /// Tries everything on one mutant: the plainest schedule of each trial that passes its call, then random ones, then all.
    pub fn hunt(&self, mutation: Mutation) -> Verdict {
        let numbers = self.calls.get(&(mutation.site, mutation.class)).map_or(&[][..], Vec::as_slice);
        let trials = numbers.len();
        let verdict = |killer| Verdict { mutation, killer, trials };
        let is_worth_more = |trial: &&Trial| trial.seed < 4;
        for round in 0..3 {
            let chosen = numbers.iter().map(|number| &self.trials[*number]);
            for trial in chosen.filter(|trial| round == 0 || is_worth_more(trial)) {
                let prepared = trial.prepare(Some(mutation));
                let caught = match round {
                    0 => random::replay(&prepared, &[]).caught,
                    _ if prepared.failure.is_some() => None,
                    2 if trial.workload.size != Size::Small => None,
                    1 => (0..SCHEDULES).find_map(|seed| suite::run_at_random(&prepared, seed, 40).caught),
                    _ => suite::explore(&prepared, STATES).caught,
                };
                if let Some(caught) = caught {
                    let how = ["", " at random", " exhaustively"][round];
                    let label = format!("{}{how}", caught.failure.label());
                    return verdict(Some((trial.workload.name, trial.seed, label)));
                }
            }
        }
        verdict(None)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mutation { site, class, change } = self.mutation;
        let file = site.file().rsplit('/').next().unwrap_or(site.file());
        let place = format!("{file}:{}", site.line());
        write!(f, "{place:<18} {class:<12} {change:<28} ", class = class.to_string(), change = change.to_string())?;
        match &self.killer {
            Some((workload, seed, label)) => write!(f, "killed by {workload} (seed {seed}): {label}"),
            None => write!(f, "LIVES after {} trials", self.trials),
        }
    }
}
