//! Numbers of processes and threads: which is free, and whose thread has one.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use userspace::Map;

use super::table::{Process, all, find};
use crate::errno::{ESRCH, Errno};
use crate::fallible::{Arc, NoMemory};
use crate::locks::{Lock, order};
use crate::threads::thread::Thread;

/// Processes by the numbers of their threads, but for those that are the process' own.
static THREADS: Lock<Map<i32, Arc<Process>>> = Lock::new(order::THREADS, Map::new());
static NEXT: AtomicI32 = AtomicI32::new(1);
/// Numbers are given out a second time: before, nobody can have the next.
static HAS_WRAPPED: AtomicBool = AtomicBool::new(false);
/// The most processes and threads.
const MOST: i32 = 1 << 22;

/// A number that no process or thread has.
pub(crate) fn new_number() -> i32 {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Acquire);
        if number >= MOST {
            HAS_WRAPPED.store(true, Ordering::Relaxed);
            NEXT.store(300, Ordering::Release);
            continue;
        }
        if !HAS_WRAPPED.load(Ordering::Relaxed) {
            return number;
        }
        let is_taken = |process: &Arc<Process>| {
            process.number == number
                || process
                    .life
                    .with(|life| life.threads.contains_key(&number) || life.group == number || life.session == number)
        };
        if !all().any(|process| is_taken(&process)) {
            return number;
        }
    }
}

/// The thread of this number.
pub(crate) fn find_thread(number: i32) -> Result<Arc<Thread>, Errno> {
    let process = find(number).ok().or_else(|| THREADS.with(|threads| threads.get(&number).cloned()));
    process.and_then(|process| process.thread(number)).ok_or(ESRCH)
}

/// A thread of a process is found by its number from now on.
pub(crate) fn enter_thread(process: &Arc<Process>, number: i32) -> Result<(), NoMemory> {
    if number == process.number {
        return Ok(());
    }
    THREADS.with(|threads| threads.insert(number, process.clone())).map(drop)
}

/// And no longer.
pub(crate) fn leave_thread(number: i32) {
    drop(THREADS.with(|threads| threads.remove(&number)));
}

/// Gives back what the threads' numbers have of the heap, if there is none any more.
pub(super) fn forget_empty() {
    drop(THREADS.with(|threads| if threads.is_empty() { core::mem::take(threads) } else { Map::new() }));
}
