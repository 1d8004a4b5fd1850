//! `vellum.stress=`: all CPUs at once protect, release, hide and show pages of the linear map, in and out of atomic context, while each
//! reads what nobody is changing; then one consumer takes most of free memory; then the map heals, and must be as it was, leaf for leaf.
//!
//! ```text
//! digest ── pool ── every CPU: claim pages ─ change ─ look ─ change back ─ look ─ let go  │ read a page that nobody has claimed
//!    └────────────────────────── equal? ── heal ── free the pool ◀──────────────────────────────┘
//! ```

mod areas;
mod arena;
mod coming;
mod conflicts;
mod most;
mod pool;
pub(crate) mod sample;
mod state;
mod tally;
mod text;
mod users;
mod worker;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hardware::per_cpu;
use kerncore::command_line::{Options, StressKind};
use pool::Pool;
use spin::Once;
use state::State;
use tally::Tally;
use users::Users;
use worker::Worker;

use crate::console::say;
use crate::cpus::{calls, start, walkers};
use crate::facts::facts;
use crate::memory::linear_map;
use crate::report::json;

/// The seed where none is asked for.
const SEED: u32 = 1;

/// Whether all was as it must be, once there was a stress.
static PASSED: Once<bool> = Once::new();

/// Whether the stress went well, if there was one.
pub(crate) fn has_passed() -> Option<bool> {
    PASSED.get().copied()
}

/// Runs the stress, if one is asked for, and says how it went.
pub(crate) fn run(options: &Options) {
    if let Some(operations @ 1..) = options.stress {
        let kind = options.stress_kind.unwrap_or_default();
        let is_ok = stress(kind, operations, options.seed.unwrap_or(SEED));
        PASSED.call_once(|| is_ok);
        json::stress(operations, is_ok);
    }
}

fn stress(kind: StressKind, operations: u32, seed: u32) -> bool {
    say!("# stress");
    let before = State::healed();
    let counted = linear_map::get().counters();
    let went = match kind {
        StressKind::Conflicts => conflicts::run(operations),
        StressKind::Mixed | StressKind::Kfence => change_pages(kind, operations, seed),
    };
    let Some(is_ok) = went else {
        say!("stress: there is no memory for it");
        return false;
    };
    let is_same = State::healed().is_as(&before);
    let after = linear_map::get().counters();
    let (splits, folds) = (after.splits - counted.splits, after.folds - counted.folds);
    say!("stress: {splits} tables took the place of a leaf, {folds} gave it back");
    is_ok && is_same
}

/// All CPUs change pages; whether all was right, unless there is no memory.
fn change_pages(kind: StressKind, operations: u32, seed: u32) -> Option<bool> {
    let users = Users::new();
    // Areas have four fifths of memory, where there are any.
    let pool = if kind == StressKind::Mixed { Pool::new(10, 2) } else { Pool::new(2, 4) }?;
    let has_late = facts().options.late_cpus.is_some_and(|late| late > 0);
    let kept = if has_late { operations / 2 } else { 0 };
    let tally =
        Tally { left: AtomicU32::new(operations - kept), is_joining: AtomicBool::new(has_late), ..Tally::default() };
    let this = per_cpu::index();
    if kind == StressKind::Mixed {
        calls::while_idle_on_every_cpu(&|cpu| tally.count(users.areas.turn(cpu)));
        users.areas.tell();
    }
    calls::while_idle_on_every_cpu(&|cpu| {
        if cpu == this {
            join_late(&tally, kept);
        }
        Worker::new(cpu, seed, &pool, &users, &tally).run(kind);
    });
    let is_whole = pool.is_whole();
    pool.free();
    told(operations, seed, &tally);
    if !is_whole {
        say!("stress: the pages do not hold what they held");
    }
    let none = |counter: &AtomicU64| counter.load(Ordering::Relaxed) == 0;
    let is_taken = kind != StressKind::Mixed || users.end() && most::take();
    Some(is_whole && is_taken && none(&tally.refused) && none(&tally.wrong))
}

/// Starts the CPUs that were held back, while others change pages; then there are as many operations more as were kept back.
fn join_late(tally: &Tally, kept: u32) {
    let before = walkers::running();
    if let Some(late @ 1..) = start::start_late(facts()) {
        let joined = (walkers::running() & !before).count_ones();
        let left = tally.left.fetch_add(kept, Ordering::Relaxed) + kept;
        say!("stress: {joined} of {late} late CPUs joined in mid-stress, {left} operations to go");
    } else {
        tally.left.fetch_add(kept, Ordering::Relaxed);
    }
    tally.is_joining.store(false, Ordering::Release);
}

fn told(operations: u32, seed: u32, tally: &Tally) {
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let cpus = walkers::running().count_ones();
    say!("stress: {operations} operations by {cpus} CPUs, seed {seed}");
    let (changed, atomic, read) = (value(&tally.changed), value(&tally.atomic), value(&tally.read));
    say!(
        "stress: {changed} lists of pages changed and changed back, {atomic} in atomic context; {read} pages read beside"
    );
    let (dry, refused, wrong) = (value(&tally.dry), value(&tally.refused), value(&tally.wrong));
    let (secret, areas) = (value(&tally.secret), value(&tally.areas));
    say!("stress: secret pages held {secret} times; {areas} areas of virtual addresses");
    say!("stress: {dry} times the reserve was dry; {refused} changes refused; {wrong} pages wrong");
}
