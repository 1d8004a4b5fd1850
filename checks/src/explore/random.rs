//! Random schedules, by priorities: the CPU of highest priority steps, and at a few random moments it falls to the lowest.
//! A bug that needs few switches in the right places is met far sooner than by tossing a coin at each step (PCT: Burckhardt
//! and others, ASPLOS 2010).

use machine::seed::Seed;

use super::{Caught, Tally};
use crate::failure::{Failure, Wrong};
use crate::prepare::{Prepared, look_everywhere};
use crate::run::Run;
use crate::sharing::Sharing;
use crate::stock;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What went wrong, if anything.
    pub caught: Option<Caught>,
    /// What it took.
    pub tally: Tally,
    /// Steps made.
    pub steps: usize,
}

/// Runs a random schedule. `length` is about how many steps it will be, `switches` how often priorities change.
pub fn run(prepared: &Prepared, seed: &mut Seed, length: usize, switches: usize) -> Ran {
    if let Some(ran) = failed(prepared) {
        return ran;
    }
    drive_at_random(prepared, &mut prepared.run(Sharing::default()), seed, length, switches)
}

/// The same for a run that is under way.
pub fn drive_at_random(prepared: &Prepared, run: &mut Run, seed: &mut Seed, length: usize, switches: usize) -> Ran {
    let cpus = prepared.parts.len();
    let mut order: Vec<usize> = (0..cpus).collect();
    for at in (1..cpus).rev() {
        order.swap(at, seed.below(at as u64 + 1) as usize);
    }
    let mut moments: Vec<usize> = (0..switches).map(|_| seed.below(length.max(1) as u64) as usize).collect();
    moments.sort_unstable();
    let mut next = moments.into_iter().peekable();
    let mut number = 0;
    drive_run(prepared, run, |ready| {
        while next.next_if(|moment| *moment <= number).is_some() {
            // Whoever would be next falls to the end.
            if let Some(at) = order.iter().position(|cpu| ready >> cpu & 1 == 1) {
                let cpu = order.remove(at);
                order.push(cpu);
            }
        }
        number += 1;
        order.iter().copied().find(|cpu| ready >> cpu & 1 == 1)
    })
}

/// Runs a given schedule; where it ends, or names a CPU that cannot go on, the lowest that can goes on as long as it can.
pub fn replay(prepared: &Prepared, choices: &[u8]) -> Ran {
    failed(prepared).unwrap_or_else(|| replay_run(prepared, &mut prepared.run(Sharing::default()), choices))
}

/// The same for a run that is under way.
pub fn replay_run(prepared: &Prepared, run: &mut Run, choices: &[u8]) -> Ran {
    let mut choices = choices.iter().copied();
    let mut last = 0;
    drive_run(prepared, run, |ready| {
        let wanted = choices.next().map_or(last, usize::from);
        last = if ready >> wanted & 1 == 1 { wanted } else { ready.trailing_zeros() as usize };
        Some(last)
    })
}

/// What comes of a scenario whose page table could not even be built.
fn failed(prepared: &Prepared) -> Option<Ran> {
    let failure = prepared.failure.clone()?;
    let caught = Some(Caught { failure, choices: Vec::new() });
    Some(Ran { caught, tally: Tally::default(), steps: 0 })
}

/// Steps the CPU that `choose` names among those that are ready, to the end.
pub fn drive_run(prepared: &Prepared, run: &mut Run, mut choose: impl FnMut(u8) -> Option<usize>) -> Ran {
    let mut choices = Vec::new();
    let mut failure: Option<Failure> = None;
    while failure.is_none() {
        let ready = run.ready();
        let Some(cpu) = (if ready == 0 { None } else { choose(ready) }) else { break };
        run.step(cpu);
        choices.push(cpu as u8);
        failure = run.failure().cloned();
    }
    if failure.is_none() {
        failure = end(prepared, run);
    }
    let tally = Tally { schedules: 1, states: 0, events: run.events() };
    let steps = choices.len();
    Ran { caught: failure.map(|failure| Caught { failure, choices }), tally, steps }
}

/// What is wrong once nobody goes on.
fn end(prepared: &Prepared, run: &mut Run) -> Option<Failure> {
    if let Some(stray) = run.host_mut().stray() {
        let event = run.host().machine().events();
        return Some(Failure { wrong: Wrong::Machine(stray), cpu: 0, event });
    }
    stock::check(run);
    look_everywhere(run, &prepared.start.scenario);
    run.failure().cloned()
}
