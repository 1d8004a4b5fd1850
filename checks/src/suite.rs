//! Trials: a workload, a seed and a number of CPUs. The suite is the list of all of them, in an order that never changes.

use std::collections::BTreeSet;

use machine::seed::Seed;

use crate::explore::exhaustive::{self, Explored, Limits};
use crate::explore::random::{self, Ran};
use crate::mutation::{Class, Mutation, Site};
use crate::parameters::Parameters;
use crate::prepare::Prepared;
use crate::scenario::Scenario;
use crate::sharing::Sharing;
use crate::workloads::{ALL, Workload};

/// Parameters that every small workload is tried with, beside drawn ones: seeds below this number stand for them.
const FIXED: u64 = 3;

/// One scenario of the suite.
#[derive(Clone, Copy)]
pub struct Trial {
    /// Workload.
    pub workload: &'static Workload,
    /// What its parameters and choices are drawn from.
    pub seed: u64,
}

impl Trial {
    /// The scenario, without some of its steps.
    pub fn scenario(&self, without: &[(usize, usize)]) -> Scenario {
        match fixed(self.seed) {
            Some(parameters) => self.workload.scenario_with(self.seed, parameters, without),
            None => self.workload.scenario(self.seed, without),
        }
    }

    /// Its machine, with this mutant of the engine.
    pub fn prepare(&self, mutation: Option<Mutation>) -> Prepared {
        Prepared::new(self.scenario(&[]), mutation)
    }
}

/// The parameters that a low seed stands for: one, two and three CPUs, from no optional feature to most of them.
fn fixed(seed: u64) -> Option<Parameters> {
    let mut parameters = Parameters::PLAIN;
    match seed {
        0 => parameters.cpus = 2,
        1 => {
            parameters.is_global = false;
            parameters.cpus = 3;
            parameters.tlb.level_hints = true;
            parameters.hardware = (true, true);
        }
        2 => {
            parameters.cpus = 2;
            parameters.tlb.range = true;
            parameters.tlb.level_hints = true;
            parameters.ets = machine::registers::Ets::Ets2;
            parameters.bbm = 2;
        }
        _ => return None,
    }
    Some(parameters)
}

/// Every small workload with the fixed parameters and `drawn` drawn ones.
pub fn small_trials(drawn: u64) -> Vec<Trial> {
    let seeds = 0..FIXED + drawn;
    let small = ALL.iter().filter(|workload| workload.is_small);
    seeds.flat_map(|seed| small.clone().map(move |workload| Trial { workload, seed })).collect()
}

/// A trial's call sites.
pub type Sites = BTreeSet<(Site, Class)>;

/// Runs a trial in its plainest schedule, and says which call sites it passed.
pub fn survey(prepared: &Prepared) -> (Ran, Sites) {
    let mut sites = prepared.sites.clone();
    if prepared.failure.is_some() {
        return (random::replay(prepared, &[]), sites);
    }
    let mut run = prepared.run(Sharing::default());
    let mut last = 0;
    let ran = random::drive_run(prepared, &mut run, |ready| {
        last = if ready >> last & 1 == 1 { last } else { ready.trailing_zeros() };
        Some(last as usize)
    });
    sites.extend(run.into_end().3);
    (ran, sites)
}

/// Runs a trial under a random schedule.
pub fn run_at_random(prepared: &Prepared, seed: u64, length: usize) -> Ran {
    let mut seed = Seed::new(seed);
    let switches = seed.below(6) as usize;
    random::run(prepared, &mut seed, length, switches)
}

/// Runs a trial under a random schedule with concrete TLBs, both drawn from `seed`.
pub fn run_with_tlbs(prepared: &Prepared, seed: u64, length: usize) -> Ran {
    run_at_random(&prepared.clone().into_concrete(Seed::new(seed)), seed, length)
}

/// Explores every interleaving of a trial.
pub fn explore(prepared: &Prepared, states: u64) -> Explored {
    exhaustive::explore(prepared, Limits { states })
}
