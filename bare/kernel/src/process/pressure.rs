//! Where there is no memory: what programs can do without goes, or else a process ends.

use super::signals::SIGKILL;
use super::table::{self, INIT, Process};
use crate::fallible::Arc;
use crate::memory::frames;
use crate::report::console::say;
use crate::threads::thread::Leaving;
use crate::threads::{dispatcher, queue};

/// Pages that are taken at once from programs that can do without (MADV_FREE).
const LAZY_AT_ONCE: usize = 64;

/// Has the process end that has the most memory, and is not the first, if there is another.
pub(super) fn free_memory() {
    // One that ends already is about to give its memory back.
    let ending = || table::all().filter(|process| process.is_ending() && !process.life.with(|life| life.is_over));
    if ending().inspect(|process| reap(process)).count() > 0 {
        return queue_up();
    }
    // What a program has said that it can do without goes first.
    let spaces = table::all().filter_map(|process| process.try_space());
    if spaces.map(|space| space.take_lazy(LAZY_AT_ONCE)).sum::<usize>() > 0 {
        return;
    }
    let candidates = table::all().filter(|process| !process.life.with(|life| life.is_over));
    let with_usage = candidates.filter_map(|process| {
        let usage = process.try_space()?.usage();
        Some((badness(&process), usage.anonymous + usage.file + usage.tables, process))
    });
    // What it has, and what it is asked to be counted for beside; who is never to end does when there is nobody else.
    let all = frames::all_pages() as i64;
    let points = |badness: i32, pages: u64| pages as i64 + i64::from(badness) * all / 1000;
    let worst = with_usage.max_by_key(|(badness, pages, _)| badness.map(|badness| points(badness, *pages)));
    let Some((_, pages, victim)) = worst else { return };
    if victim.end(SIGKILL.number()) {
        let kib = pages * (crate::facts::page_size().size_bytes() >> 10);
        victim.with_name(None, |name| {
            say!("out of memory: process {} ({name}), which had {kib} KiB, is killed", victim.number);
        });
    }
    // It gives its memory back on its own CPU, or on this one.
    queue_up();
}

/// Takes the memory of a process that is to end and whose threads all wait for something: maybe for a lock that the thread has that lacks
/// memory.
fn reap(process: &Process) {
    let Some(space) = process.try_space() else { return };
    let has_it = |other: &Arc<Process>| other.try_space().is_some_and(|one| Arc::ptr_eq(&one, &space));
    let is_needed = table::all().any(|other| !other.is_ending() && has_it(&other));
    if !is_needed && process.threads().all(|thread| queue::is_parked(&thread)) {
        // What cannot be unmapped goes with the process.
        let _ = space.unmap(0, space.highest());
    }
}

/// How much rather than others a process is to end; none for never, as of the first.
fn badness(process: &Process) -> Option<i32> {
    const NEVER: i32 = -1000;
    let badness = process.wishes.with(|wishes| wishes.badness);
    Some(badness).filter(|badness| process.number != INIT && *badness > NEVER)
}

fn queue_up() {
    dispatcher::leave(Leaving::Ready);
    queue::wake_who_is_due();
}
