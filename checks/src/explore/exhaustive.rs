//! Every interleaving, by depth-first search.
//!
//! Two reductions, both exact. States that were met before are not explored again; and of two independent steps only one
//! order is tried (sleep sets). They go together if a state that is met again with a smaller sleep set is explored for
//! what the larger one left out (Godefroid, LNCS 1032).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::dependence::are_independent;
use super::{Caught, Choices, Tally};
use crate::prepare::{Prepared, look_everywhere};
use crate::request::Request;
use crate::run::{Mark, Run};
use crate::sharing::Sharing;
use crate::stock;

/// Bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// States after which it gives up.
    pub states: u64,
}

/// What came of an exploration.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The first failure.
    pub caught: Option<Caught>,
    /// Whether every interleaving is covered.
    pub is_complete: bool,
    /// What it took.
    pub tally: Tally,
}

/// A state on the way, with steps that are still to be tried there.
struct Node {
    mark: Mark,
    depth: usize,
    requests: Vec<Option<Request>>,
    sleep: u8,
    todo: u8,
}

struct Search<'p> {
    prepared: &'p Prepared,
    run: Run,
    /// For each state, what slept there.
    known: HashMap<u64, u8>,
    path: Vec<Node>,
    choices: Choices,
    tally: Tally,
    uses_sleep: bool,
}

/// Explores every interleaving. Words that turn out to be shared make it begin again, with that knowledge.
pub fn explore(prepared: &Prepared, limits: Limits) -> Explored {
    search(prepared, limits, true)
}

/// The same without sleep sets: slower, to hold the other against.
pub fn explore_plainly(prepared: &Prepared, limits: Limits) -> Explored {
    search(prepared, limits, false)
}

fn search(prepared: &Prepared, limits: Limits, uses_sleep: bool) -> Explored {
    let mut sharing = Sharing::default();
    let mut total = Tally::default();
    loop {
        let run = prepared.run(sharing);
        let (known, path, choices) = (HashMap::new(), Vec::new(), Vec::new());
        let mut search = Search { prepared, run, known, path, choices, tally: Tally::default(), uses_sleep };
        let (caught, is_complete) = search.run_all(limits);
        total.schedules += search.tally.schedules;
        total.events += search.tally.events;
        total.states = search.tally.states;
        let mut known_sharing = search.run.into_end().2;
        let must_repeat = known_sharing.take_growth();
        if caught.is_some() || !must_repeat || !is_complete {
            return Explored { caught, is_complete, tally: total };
        }
        sharing = known_sharing;
    }
}

impl Search<'_> {
    fn run_all(&mut self, limits: Limits) -> (Option<Caught>, bool) {
        let mut sleep = 0;
        loop {
            // Forward to an end or a known state.
            while let Some(cpu) = self.arrive(sleep) {
                sleep = self.sleep_after(cpu);
                self.step(cpu);
                if let Some(caught) = self.caught() {
                    return (Some(caught), true);
                }
            }
            self.tally.schedules += 1;
            if self.tally.states > limits.states {
                return (None, false);
            }
            match self.retreat() {
                None => return (None, true),
                Some(cpu) => {
                    sleep = self.sleep_after(cpu);
                    self.step(cpu);
                    if let Some(caught) = self.caught() {
                        return (Some(caught), true);
                    }
                }
            }
        }
    }

    /// Takes note of the state the run has come to, and says which CPU to step first; `None` at an end or a known state.
    fn arrive(&mut self, sleep: u8) -> Option<usize> {
        let ready = self.run.ready();
        if ready == 0 {
            // It reads whole tables: at the first end, and at none of those that other orders lead to.
            if self.tally.schedules == 0 {
                stock::check(&mut self.run);
            }
            look_everywhere(&mut self.run, &self.prepared.start.scenario);
            return None;
        }
        let todo = match self.known.entry(self.run.digest()) {
            Entry::Vacant(place) => {
                place.insert(sleep);
                self.tally.states += 1;
                ready & !sleep
            }
            Entry::Occupied(mut place) => {
                let slept = *place.get();
                place.insert(slept & sleep);
                ready & slept & !sleep
            }
        };
        if todo == 0 {
            return None;
        }
        let cpu = todo.trailing_zeros() as usize;
        let requests = (0..self.prepared.parts.len()).map(|cpu| self.run.pending(cpu).cloned()).collect();
        let (mark, depth) = (self.run.mark(), self.choices.len());
        self.path.push(Node { mark, depth, requests, sleep, todo: todo & !(1 << cpu) });
        Some(cpu)
    }

    /// What sleeps after `cpu` steps from the last node: what slept or was tried there and is independent of the step.
    fn sleep_after(&mut self, cpu: usize) -> u8 {
        let Some(node) = self.path.last_mut().filter(|_| self.uses_sleep) else { return 0 };
        let step = node.requests[cpu].clone();
        let run = &self.run;
        let stays = |other: &usize| match (&node.requests[*other], &step) {
            // An interrupt and the program that it comes to are one after the other.
            (Some(one), Some(step)) => run.cpu_of(*other) != run.cpu_of(cpu) && are_independent(one, step),
            _ => false,
        };
        let before = node.sleep;
        let after = (0..node.requests.len()).filter(|other| before >> other & 1 == 1).filter(stays);
        let after = after.fold(0, |bits, other| bits | 1 << other);
        node.sleep |= 1 << cpu;
        after
    }

    fn step(&mut self, cpu: usize) {
        let before = self.run.host().machine().events();
        self.run.step(cpu);
        self.choices.push(cpu as u8);
        self.tally.events += self.run.host().machine().events() - before;
    }

    /// Back to the last state where something is left to be tried, and what that is.
    fn retreat(&mut self) -> Option<usize> {
        while self.path.last()?.todo == 0 {
            self.path.pop();
        }
        let node = self.path.last_mut()?;
        let cpu = node.todo.trailing_zeros() as usize;
        node.todo &= !(1 << cpu);
        self.choices.truncate(node.depth);
        self.run.go_back(&node.mark, &self.prepared.start, &self.prepared.parts);
        Some(cpu)
    }

    fn caught(&self) -> Option<Caught> {
        let failure = self.run.failure()?.clone();
        Some(Caught { failure, choices: self.choices.clone() })
    }
}
