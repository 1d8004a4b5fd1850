//! Trials: a workload, a seed and a number of CPUs. The suite is the list of all of them, in an order that never changes.

use std::collections::BTreeSet;

use machine::seed::Seed;

use crate::explore::exhaustive::{self, Explored, Limits};
use crate::explore::random::{self, Ran};
use crate::explore::{Caught, Tally};
use crate::levels::Levels;
use crate::mutation::{Class, Mutation, Site};
use crate::parameters::Parameters;
use crate::prepare::Prepared;
use crate::scenario::{Scenario, Step};
use crate::setting::Setting;
use crate::sharing::Sharing;
use crate::workloads::{ALL, Size, Workload};

/// Parameters that every small workload is tried with, beside drawn ones: seeds below this number stand for them.
const FIXED: u64 = 7;

/// Fewer changes of priority than this in a random schedule.
const MOST_SWITCHES: u64 = 6;

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

/// The parameters that a low seed stands for: EL1&0 on two and three CPUs, from level hints alone to most features; then two
/// CPUs in each other setting.
fn fixed(seed: u64) -> Option<Parameters> {
    let mut parameters = Parameters::PLAIN;
    match seed {
        0 => {
            parameters.cpus = 2;
            parameters.tlb.level_hints = true;
        }
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
            parameters.bbm = Levels::all(2);
        }
        3 => {
            parameters.tlb.level_hints = true;
            parameters.hardware = (true, false);
            parameters = parameters.in_setting(Setting::Stage2, 0);
        }
        4 => {
            parameters.tlb.range = true;
            parameters.tlb.level_hints = true;
            parameters.bbm = Levels::all(1);
            parameters = parameters.in_setting(Setting::Guest, 1);
        }
        5 => {
            parameters.tlb.level_hints = true;
            parameters = parameters.in_setting(Setting::El2, 0);
        }
        6 => {
            parameters.is_global = false;
            parameters.tlb.range = true;
            parameters.bbm = Levels::all(3);
            parameters = parameters.in_setting(Setting::El2And0, 0);
        }
        _ => return None,
    }
    Some(parameters)
}

/// Every workload of `size` with the fixed parameters and `drawn` drawn ones.
pub fn trials(size: Size, drawn: u64) -> Vec<Trial> {
    let seeds = 0..FIXED + drawn;
    let chosen = ALL.iter().filter(|workload| workload.size == size);
    seeds.flat_map(|seed| chosen.clone().map(move |workload| Trial { workload, seed })).collect()
}

/// A trial's call sites.
pub type Sites = BTreeSet<(Site, Class)>;

/// Random schedules of a trial in which hardware writes descriptors, where some calls are made only if it comes in between;
/// and of one that is too large to be explored whole.
const RACES: u64 = 12;
/// Steps that they are taken to have.
const RACE_LENGTH: usize = 40;

/// Runs a trial in its plainest schedule, and where hardware writes descriptors in some random ones; says which call sites
/// they passed. The first failure ends it.
pub fn survey(prepared: &Prepared) -> (Ran, Sites) {
    let mut sites = prepared.sites.clone();
    if prepared.failure.is_some() {
        return (random::replay(prepared, &[]), sites);
    }
    let mut run = prepared.run(Sharing::default());
    let mut ran = random::replay_run(prepared, &mut run, &[]);
    sites.extend(run.into_end().3);
    let has_races = prepared.start.scenario.programs.iter().flatten().any(|it| matches!(it, Step::Update(..)));
    for seed in 0..if has_races { RACES } else { 0 } {
        if ran.caught.is_some() {
            break;
        }
        let mut run = prepared.run(Sharing::default());
        let mut seed = Seed::new(seed);
        let switches = seed.below(MOST_SWITCHES) as usize;
        ran = random::drive_at_random(prepared, &mut run, &mut seed, RACE_LENGTH, switches);
        sites.extend(run.into_end().3);
    }
    (ran, sites)
}

/// Runs a trial under a random schedule.
pub fn run_at_random(prepared: &Prepared, seed: u64, length: usize) -> Ran {
    let mut seed = Seed::new(seed);
    let switches = seed.below(MOST_SWITCHES) as usize;
    random::run(prepared, &mut seed, length, switches)
}

/// Runs a trial under a random schedule with concrete TLBs, both drawn from `seed`.
pub fn run_with_tlbs(prepared: &Prepared, seed: u64, length: usize) -> Ran {
    run_at_random(&prepared.clone().into_concrete(Seed::new(seed)), seed, length)
}

/// Runs a trial under a few random schedules, up to the first that fails.
pub fn sample(prepared: &Prepared) -> (Tally, Option<Caught>) {
    let mut tally = Tally::default();
    for seed in 0..RACES {
        let ran = run_at_random(prepared, seed, RACE_LENGTH);
        tally.add(ran.tally);
        if ran.caught.is_some() {
            return (tally, ran.caught);
        }
    }
    (tally, None)
}

/// Explores every interleaving of a trial, or where there are too many a few random ones.
pub fn examine(prepared: &Prepared, states: u64) -> Explored {
    let mut explored = explore(prepared, states);
    if !explored.is_complete && explored.caught.is_none() {
        let (tally, caught) = sample(prepared);
        explored.tally.add(tally);
        explored.caught = caught;
    }
    explored
}

/// Explores every interleaving of a trial.
pub fn explore(prepared: &Prepared, states: u64) -> Explored {
    exhaustive::explore(prepared, Limits { states })
}
