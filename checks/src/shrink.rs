//! From a failing run to the smallest that fails in the same way: fewest steps of the programs, then fewest switches.

use crate::explore::Caught;
use crate::explore::random;
use crate::mutation::Mutation;
use crate::prepare::Prepared;
use crate::schedule::Schedule;
use crate::suite::{self, Trial};

/// Random schedules tried for each smaller set of steps.
const SCHEDULES: u64 = 6;
/// States after which an exploration of a smaller set of steps gives up.
const STATES: u64 = 2_000;
/// Replays spent on switches.
const REPLAYS: usize = 2_000;

/// The smallest run found that fails as `caught` did, and how it fails.
pub fn shrink(trial: Trial, mutation: Option<Mutation>, caught: &Caught, tlb: Option<u64>) -> (Schedule, Caught) {
    let label = caught.failure.label();
    let mut best = (Vec::new(), caught.clone());
    if tlb.is_none() {
        let programs = trial.scenario(&[]).programs;
        let steps = programs.iter().enumerate().flat_map(|(cpu, program)| (0..program.len()).map(move |at| (cpu, at)));
        for step in steps.collect::<Vec<_>>().into_iter().rev() {
            let mut without = best.0.clone();
            without.push(step);
            if let Some(caught) = fail_again(&prepare(trial, mutation, &without), label) {
                best = (without, caught);
            }
        }
    }
    let (mut without, caught) = best;
    let prepared = prepare(trial, mutation, &without);
    let caught = if tlb.is_none() { straighten(&prepared, caught, label) } else { caught };
    without.sort_unstable();
    let mutant = mutation.map(|mutation| mutation.to_string());
    let choices = caught.choices.clone();
    (Schedule { workload: trial.workload.name, seed: trial.seed, mutant, without, tlb, choices }, caught)
}

fn prepare(trial: Trial, mutation: Option<Mutation>, without: &[(usize, usize)]) -> Prepared {
    Prepared::new(trial.scenario(without), mutation)
}

fn fail_again(prepared: &Prepared, label: &str) -> Option<Caught> {
    let is_same = |caught: &Caught| caught.failure.label() == label;
    if let Some(caught) = random::replay(prepared, &[]).caught.filter(is_same) {
        return Some(caught);
    }
    if prepared.failure.is_some() {
        return None;
    }
    let at_random = (0..SCHEDULES).find_map(|seed| suite::run_at_random(prepared, seed, 60).caught.filter(is_same));
    at_random.or_else(|| suite::explore(prepared, STATES).caught.filter(is_same))
}

/// Takes out switches, a block of steps at a time, as long as the run fails in the same way.
fn straighten(prepared: &Prepared, mut caught: Caught, label: &str) -> Caught {
    let switches = |choices: &[u8]| choices.chunk_by(|one, other| one == other).count();
    let mut replays = 0;
    let mut at = 0;
    while at < switches(&caught.choices) && replays < REPLAYS {
        let blocks: Vec<&[u8]> = caught.choices.chunk_by(|one, other| one == other).collect();
        let rest: Vec<u8> =
            blocks.iter().enumerate().filter(|(number, _)| *number != at).flat_map(|it| it.1.to_vec()).collect();
        replays += 1;
        match random::replay(prepared, &rest).caught {
            Some(better)
                if better.failure.label() == label
                    && (switches(&better.choices), better.choices.len())
                        < (switches(&caught.choices), caught.choices.len()) =>
            {
                caught = better;
                at = 0;
            }
            _ => at += 1,
        }
    }
    caught
}
