//! The whole check: every interleaving of the small workloads, then random runs with concrete TLBs, on all cores given.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use machine::seed::Seed;

use crate::explore::{Caught, Tally, random};
use crate::suite::{self, Trial};
use crate::workloads::{Size, Workload};

/// States after which an exploration gives way to random schedules.
const STATES: u64 = 3_000;
/// Steps that a random schedule is taken to have.
const LENGTH: usize = 400;
/// Random runs of one machine.
const RUNS: u64 = 4;
/// Threads that check.
const THREADS: usize = 2;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// First seed.
    pub seed: u64,
    /// Drawn parameters for each small workload, beside the fixed ones.
    pub drawn: u64,
    /// Random events at least.
    pub events: u64,
    /// Time at most, for the random part.
    pub time: Option<Duration>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// Explorations: all interleavings covered, and given up.
    pub covered: u64,
    /// Explorations that were too large.
    pub given_up: u64,
    /// What they took.
    pub explored: Tally,
    /// What random schedules of the long workloads took.
    pub long: Tally,
    /// What random runs took.
    pub random: Tally,
    /// Time of the random part, all threads together.
    pub random_time: Duration,
}

/// A failure, and what it was a failure of.
#[derive(Clone)]
pub struct Found {
    /// The trial.
    pub trial: Trial,
    /// The failure.
    pub caught: Caught,
    /// Seed of concrete TLBs, if the failure needs them.
    pub tlb: Option<u64>,
}

/// Counts that a progress bar may read while the check runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Schedules so far.
    pub schedules: AtomicU64,
    /// States so far.
    pub states: AtomicU64,
    /// Events so far.
    pub events: AtomicU64,
    /// Thousandths done of what is to be done.
    pub thousandths: AtomicU64,
    is_over: AtomicBool,
}

impl Progress {
    fn add(&self, tally: Tally) {
        self.schedules.fetch_add(tally.schedules, Ordering::Relaxed);
        self.states.fetch_add(tally.states, Ordering::Relaxed);
        self.events.fetch_add(tally.events, Ordering::Relaxed);
    }

    /// Whether the check has ended.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Checks. The first failure ends it.
pub fn check(orders: &Orders, progress: &Progress) -> (Sum, Option<Found>) {
    // A panic of the engine is a finding; the default hook would print it on top of the story.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut sum = Sum::default();
    let found = explore_all(orders, progress, &mut sum).or_else(|| run_at_random(orders, progress, &mut sum));
    panic::set_hook(hook);
    progress.is_over.store(true, Ordering::Relaxed);
    (sum, found)
}

/// Runs `work` on every thread with numbers that go up, until it has none left or something is found.
fn share(next: &AtomicU64, work: &(dyn Fn(u64) -> Option<Option<Found>> + Sync)) -> Option<Found> {
    let found = Mutex::new(None);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    match work(next.fetch_add(1, Ordering::Relaxed)) {
                        None => return,
                        Some(None) => {}
                        Some(Some(one)) => {
                            found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(one);
                            is_over.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn explore_all(orders: &Orders, progress: &Progress, sum: &mut Sum) -> Option<Found> {
    let trials = suite::trials(Size::Small, orders.drawn);
    let sums = Mutex::new(&mut *sum);
    share(&AtomicU64::new(0), &|number| {
        let trial = *trials.get(number as usize)?;
        let prepared = trial.prepare(None);
        if let Some(failure) = &prepared.failure {
            let caught = Caught { failure: failure.clone(), choices: Vec::new() };
            return Some(Some(Found { trial, caught, tlb: None }));
        }
        let explored = suite::examine(&prepared, STATES);
        progress.add(explored.tally);
        progress.thousandths.store(500 * (number + 1) / trials.len() as u64, Ordering::Relaxed);
        let mut sum = sums.lock().unwrap_or_else(PoisonError::into_inner);
        sum.explored.add(explored.tally);
        *if explored.is_complete { &mut sum.covered } else { &mut sum.given_up } += 1;
        Some(explored.caught.map(|caught| Found { trial, caught, tlb: None }))
    })
}

fn run_at_random(orders: &Orders, progress: &Progress, sum: &mut Sum) -> Option<Found> {
    let workload = Workload::find("mixed")?;
    let long = suite::trials(Size::Long, orders.drawn);
    let start = Instant::now();
    let sums = Mutex::new(&mut *sum);
    share(&AtomicU64::new(0), &|number| {
        let done = sums.lock().unwrap_or_else(PoisonError::into_inner).random.events;
        let is_late = orders.time.is_some_and(|time| start.elapsed() >= time);
        let mixed = Trial { workload, seed: orders.seed + number + 100 };
        let trial = long.get(number as usize).copied().unwrap_or(mixed);
        if is_late || trial.workload.size == Size::Random && (orders.time.is_none() && done >= orders.events) {
            return None;
        }
        progress.thousandths.store(500 + share_done(orders, done, start), Ordering::Relaxed);
        let begin = Instant::now();
        let (tally, found) = run_trial(trial);
        progress.add(tally);
        let mut sum = sums.lock().unwrap_or_else(PoisonError::into_inner);
        if trial.workload.size == Size::Long {
            sum.long.add(tally);
        } else {
            sum.random.add(tally);
            sum.random_time += begin.elapsed();
        }
        Some(found)
    })
}

fn share_done(orders: &Orders, events: u64, start: Instant) -> u64 {
    let share = match orders.time {
        Some(time) => start.elapsed().as_secs_f64() / time.as_secs_f64().max(0.001),
        None => events as f64 / orders.events.max(1) as f64,
    };
    (share.min(1.0) * 500.0) as u64
}

/// A few random schedules of one scenario.
fn run_trial(trial: Trial) -> (Tally, Option<Found>) {
    let prepared = trial.prepare(None);
    let mut tally = Tally { events: prepared.events, ..Tally::default() };
    if let Some(failure) = &prepared.failure {
        let caught = Caught { failure: failure.clone(), choices: Vec::new() };
        return (tally, Some(Found { trial, caught, tlb: None }));
    }
    let mut seeds = Seed::new(trial.seed);
    for _ in 0..RUNS {
        let tlb = seeds.bits() >> 1;
        let ran = suite::run_with_tlbs(&prepared, tlb, LENGTH);
        tally.add(ran.tally);
        if let Some(caught) = ran.caught {
            // What the may-TLB alone shows is repeated without concrete TLBs.
            let again = random::replay(&prepared, &caught.choices).caught;
            let is_shown = again.is_some_and(|again| again.failure.label() == caught.failure.label());
            return (tally, Some(Found { trial, caught, tlb: (!is_shown).then_some(tlb) }));
        }
    }
    (tally, None)
}
