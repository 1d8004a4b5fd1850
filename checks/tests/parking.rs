//! The protocol of parking (`bare/kernel/src/cpus/parking.rs`, `hardware::parking`), as a model of its own, in every order there is: CPUs that
//! change the map, a spin lock of somebody else's around it, and a CPU that comes to the gate at any step. Nobody waits for ever, and while
//! a leaf changes size whoever walks the tables is parked. What each side is obliged to is left out in turn, and missed.

use std::collections::HashSet;

const CPUS: usize = 3;
/// No CPU.
const NOBODY: usize = CPUS;

/// What a CPU does, one step after the other, exceptions masked; one that is through idles and takes interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    TakeSpinLock,
    TakeMap,
    Ask,
    Await,
    Change,
    Release,
    DropMap,
    DropSpinLock,
    /// It waits with its MMU off until it counts.
    PassGate,
}
use Step::*;

const CHANGES: &[Step] = &[TakeMap, Ask, Await, Change, Release, DropMap];
const CHANGES_UNDER_A_LOCK: &[Step] = &[TakeSpinLock, TakeMap, Ask, Await, Change, Release, DropMap, DropSpinLock];
const SPINS: &[Step] = &[TakeSpinLock, DropSpinLock];
const COMES_LATE: &[Step] = &[PassGate];
const COMES_LATE_AND_CHANGES: &[Step] = &[PassGate, TakeMap, Ask, Await, Change, Release, DropMap];

/// Every CPU with every part in it.
const SHAPES: [[&[Step]; CPUS]; 5] = [
    [CHANGES, CHANGES, &[]],
    [CHANGES_UNDER_A_LOCK, SPINS, CHANGES],
    [CHANGES_UNDER_A_LOCK, CHANGES_UNDER_A_LOCK, COMES_LATE],
    [CHANGES, SPINS, COMES_LATE_AND_CHANGES],
    [CHANGES, COMES_LATE_AND_CHANGES, COMES_LATE_AND_CHANGES],
];

/// An obligation that nobody keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mutant {
    None,
    /// The embedder's lock: a masked wait for it does not answer.
    LockDoesNotAnswer,
    /// The initiator: it changes before all have parked.
    DoesNotAwait,
    /// The map's lock: two park at once.
    MapIsNotLocked,
    /// The gate opens while a change is in flight.
    GateDoesNotWait,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    at: [usize; CPUS],
    /// Whom each lock has.
    map: usize,
    spin: usize,
    walks: [bool; CPUS],
    asked: [bool; CPUS],
    parked: [bool; CPUS],
}

impl State {
    fn new(shape: &[&[Step]; CPUS]) -> Self {
        let walks = shape.map(|steps| steps.first() != Some(&PassGate));
        Self { at: [0; CPUS], map: NOBODY, spin: NOBODY, walks, asked: [false; CPUS], parked: [false; CPUS] }
    }

    /// What `cpu` may do next: nothing if it waits. Errors: what no CPU may meet.
    fn next(&self, shape: &[&[Step]; CPUS], cpu: usize, mutant: Mutant) -> Result<Option<Self>, &'static str> {
        let mut next = self.clone();
        let others = || (0..CPUS).filter(move |other| *other != cpu);
        let step = shape[cpu].get(self.at[cpu]);
        let waits = match step {
            _ if self.parked[cpu] => {
                next.parked[cpu] = self.asked[cpu];
                return Ok((!next.parked[cpu]).then_some(next));
            }
            Some(TakeMap) => self.map != NOBODY && mutant != Mutant::MapIsNotLocked,
            Some(TakeSpinLock) => self.spin != NOBODY,
            Some(PassGate) => self.map != NOBODY && mutant != Mutant::GateDoesNotWait,
            Some(Await) => {
                let all_parked = others().all(|other| self.parked[other] || !self.asked[other]);
                !all_parked && mutant != Mutant::DoesNotAwait
            }
            Some(_) => false,
            None => true,
        };
        // Who idles takes its interrupt; who waits for a lock answers. The initiator itself is asked by nobody.
        let answers =
            step.is_none() || matches!(step, Some(TakeMap | TakeSpinLock)) && mutant != Mutant::LockDoesNotAnswer;
        if waits {
            next.parked[cpu] = answers && self.asked[cpu];
            return Ok(next.parked[cpu].then_some(next));
        }
        match step {
            Some(TakeMap) => next.map = cpu,
            Some(TakeSpinLock) => next.spin = cpu,
            Some(DropMap) => next.map = NOBODY,
            Some(DropSpinLock) => next.spin = NOBODY,
            Some(PassGate) => next.walks[cpu] = true,
            Some(Ask) => others().for_each(|other| next.asked[other] = self.walks[other]),
            Some(Release) => next.asked = [false; CPUS],
            Some(Change) if others().any(|other| self.walks[other] && !self.parked[other]) => {
                return Err("a CPU walks what changes");
            }
            _ => {}
        }
        next.at[cpu] += 1;
        Ok(Some(next))
    }
}

/// Every state that can be reached: how many, or what is wrong in one.
fn explore(shape: &[&[Step]; CPUS], mutant: Mutant) -> Result<usize, String> {
    let mut open = vec![State::new(shape)];
    let mut seen = HashSet::from([open[0].clone()]);
    while let Some(state) = open.pop() {
        let nexts: Result<Vec<_>, _> = (0..CPUS).map(|cpu| state.next(shape, cpu, mutant)).collect();
        let nexts: Vec<State> = nexts.map_err(|what| format!("{what}: {state:?}"))?.into_iter().flatten().collect();
        let is_through = (0..CPUS).all(|cpu| state.at[cpu] == shape[cpu].len());
        if nexts.is_empty() && !is_through {
            return Err(format!("all wait for ever: {state:?}"));
        }
        open.extend(nexts.into_iter().filter(|next| seen.insert(next.clone())));
    }
    Ok(seen.len())
}

#[test]
fn nobody_waits_for_ever_and_nobody_walks_what_changes() {
    for shape in &SHAPES {
        let states = explore(shape, Mutant::None).unwrap_or_else(|what| panic!("{shape:?}: {what}"));
        assert!(states > 20, "{shape:?}: {states} states");
    }
}

#[test]
fn each_obligation_is_missed() {
    for (mutant, expected) in [
        (Mutant::LockDoesNotAnswer, "all wait for ever"),
        (Mutant::DoesNotAwait, "a CPU walks what changes"),
        (Mutant::MapIsNotLocked, ""),
        (Mutant::GateDoesNotWait, "a CPU walks what changes"),
    ] {
        let caught =
            SHAPES.iter().filter_map(|shape| explore(shape, mutant).err()).find(|what| what.contains(expected));
        assert!(caught.is_some(), "{mutant:?} is not noticed");
    }
}
