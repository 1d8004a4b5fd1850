//! Where there is no memory: what programs can do without goes, or else a process ends.
//!
//! ```text
//!   threads that lack memory ── one of them chooses ──▶ pages that MADV_FREE left ─▶ memory of a process that ends ─▶ SIGKILL
//!              └── all others sleep until a process has ended, or a while
//! ```

use core::sync::atomic::{AtomicBool, Ordering};

use hardware::timer;

use super::signals::SIGKILL;
use super::space::Space;
use super::table::{self, INIT, Process};
use crate::console::say;
use crate::fallible::Arc;
use crate::locks::{Lock, order};
use crate::memory::frames;
use crate::threads::thread::{Leaving, current};
use crate::threads::waiters::{Interrupted, Waiters, wait};
use crate::threads::{dispatcher, queue};

/// Pages that are taken at once from programs that can do without (MADV_FREE).
const LAZY_AT_ONCE: usize = 64;
/// Milliseconds until a thread that lacks memory looks again if no process ends, or nobody can tell it for lack of memory. To sleep so
/// takes none.
const PAUSE: u64 = 50;

/// Seconds in which a process that is to end may look at its memory once more, for mutexes that it has, while threads of it run. As Linux.
const PATIENCE: u64 = 2;

/// A thread looks for memory, for all that lack some.
static IS_CHOOSING: AtomicBool = AtomicBool::new(false);
/// Threads that lack memory.
static LACKING: Waiters = Waiters::new();
/// The process whose end is waited for, and since when, in ticks of the counter.
static AWAITED: Lock<(i32, u64)> = Lock::new(order::AWAITED, (0, 0));

/// Has memory come free, from a process that ends if there is no other, which is never the first. The thread looks then whether it has
/// what it lacks.
pub(super) fn free_memory() {
    if current().owner.is_dying() {
        return;
    }
    if !IS_CHOOSING.swap(true, Ordering::Acquire) {
        let has_freed = choose();
        IS_CHOOSING.store(false, Ordering::Release);
        if has_freed {
            return tell();
        }
    }
    let deadline = timer::read_counter() + timer::read_frequency() * PAUSE / 1000;
    let mut is_told = false;
    let waited = wait(&[&LACKING], Some(deadline), || core::mem::replace(&mut is_told, true).then_some(()));
    if waited == Err(Interrupted::Signal) {
        // It takes the signal once it has what it lacks.
        dispatcher::leave(Leaving::Parked(Some(deadline)));
    }
}

/// Memory may have come free.
pub(super) fn tell() {
    LACKING.wake_all();
}

/// Frees memory now, or has a process free its own. Whether it was now.
fn choose() -> bool {
    // Memory of a process that ends already comes free first.
    for process in table::all().filter(|process| process.is_ending()) {
        // Who changes it now is about to give it back.
        let has_some = |space: &Arc<dyn Space>| space.resident().is_none_or(|pages| pages > 1);
        if let Some(space) = process.try_space().filter(|space| has_some(space) && !is_needed(space)) {
            return reap(&process, &*space);
        }
    }
    // What a program has said that it can do without goes next.
    let spaces = table::all().filter_map(|process| process.try_space());
    if spaces.map(|space| space.take_lazy(LAZY_AT_ONCE)).sum::<usize>() > 0 {
        return true;
    }
    // What it has, and what it is asked to be counted for beside; who is never to end does when there is nobody else.
    let all = frames::all_pages() as i64;
    let points = |badness: i32, pages: u64| pages as i64 + i64::from(badness) * all / 1000;
    let candidates = table::all().filter(|process| !process.is_ending());
    let with_pages = candidates.filter_map(|process| Some((pages(&process)?, process)));
    let worst = with_pages.max_by_key(|(pages, process)| badness(process).map(|badness| points(badness, *pages)));
    let Some((pages, victim)) = worst else { return false };
    if victim.end(SIGKILL.number()) {
        let kib = pages * (crate::facts::page_size().size_bytes() >> 10);
        victim.with_name(None, |name| {
            say!("out of memory: process {} ({name}), which had {kib} KiB, is killed", victim.number);
        });
    }
    false
}

/// Pages of a process, or its faults if its threads change areas all the time.
fn pages(process: &Process) -> Option<u64> {
    /// Turns of others in which a change of areas ends, as a rule.
    const TURNS: usize = 8;
    let space = process.try_space()?;
    let counted = (0..TURNS).find_map(|_| {
        let pages = space.resident();
        if pages.is_none() {
            dispatcher::give_way();
        }
        pages
    });
    Some(counted.unwrap_or_else(|| process.spent().faults.min(frames::all_pages())))
}

/// Whether a process goes on that has this address space.
fn is_needed(space: &Arc<dyn Space>) -> bool {
    table::all().any(|other| !other.is_ending() && other.has_space(space))
}

/// Takes the memory of a process that is to end, if its threads all wait for something, maybe for a lock that the thread has that lacks
/// memory; or if it does not end in time. Whether it did.
fn reap(process: &Process, space: &dyn Space) -> bool {
    let now = timer::read_counter();
    let since = AWAITED.with(|awaited| {
        if awaited.0 != process.number {
            *awaited = (process.number, now);
        }
        awaited.1
    });
    let is_late = now - since > PATIENCE * timer::read_frequency();
    let is_due = is_late || process.threads().all(|thread| queue::is_parked(&thread));
    is_due && space.unmap(0, space.highest()).is_ok()
}

/// How much rather than others a process is to end; none for never, as of the first.
fn badness(process: &Process) -> Option<i32> {
    const NEVER: i32 = -1000;
    let badness = process.wishes.with(|wishes| wishes.badness);
    Some(badness).filter(|badness| process.number != INIT && *badness > NEVER)
}
