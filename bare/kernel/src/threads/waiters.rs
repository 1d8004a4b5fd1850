//! Waiting until something is so: who waits is told when it may be.

use crate::fallible::{Arc, List, NoMemory, Weak};
use alloc::vec::Vec;

use hardware::lock::Lock;
use hardware::timer;

use super::dispatcher::leave;
use super::queue;
use super::thread::{Leaving, Thread, current};

/// Threads that wait for one thing.
pub(crate) struct Waiters(Lock<Vec<Weak<Thread>>>);

/// Why a wait ended without what it was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupted {
    Signal,
    Time,
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self(Lock::new(Vec::new()))
    }

    /// It may be so now.
    #[inline(never)]
    pub(crate) fn wake_all(&self) {
        let all = self.0.with(core::mem::take);
        all.iter().filter_map(Weak::upgrade).for_each(|thread| queue::wake(&thread));
    }

    #[inline(never)]
    pub(super) fn enter(&self, thread: &Arc<Thread>) -> Result<(), NoMemory> {
        self.0.with(|all| all.try_push(Arc::downgrade(thread)))
    }

    #[inline(never)]
    pub(super) fn leave(&self, thread: &Arc<Thread>) {
        let empty = self.0.with(|all| {
            all.retain(|one| !core::ptr::eq(one.as_ptr(), Arc::as_ptr(thread)));
            all.is_empty().then(|| core::mem::take(all))
        });
        // What nobody waits for holds no memory; it is freed without the lock.
        drop(empty);
    }
}

/// Waits until `ready` gives something, which is asked again whenever one of `waiters` is woken; no longer than to the counter's
/// `deadline`, and not beyond a signal.
pub(crate) fn wait<T>(
    waiters: &[&Waiters],
    deadline: Option<u64>,
    mut ready: impl FnMut() -> Option<T>,
) -> Result<T, Interrupted> {
    let mut found = None;
    // One loop for all: what is waited for is many kinds of thing.
    wait_until(waiters, deadline, &mut || {
        found = ready();
        found.is_some()
    })
    .and_then(|()| found.ok_or(Interrupted::Signal))
}

fn wait_until(
    waiters: &[&Waiters],
    deadline: Option<u64>,
    is_ready: &mut dyn FnMut() -> bool,
) -> Result<(), Interrupted> {
    let thread = current();
    loop {
        if thread.owner.is_held() {
            leave(Leaving::Parked(None));
            continue;
        }
        let is_told = waiters.iter().all(|waiters| waiters.enter(&thread).is_ok());
        // Asked before: a signal that comes with what is waited for ends no wait without that.
        let is_interrupted = thread.owner.is_interrupted();
        let found = if is_ready() {
            Some(Ok(()))
        } else if is_interrupted {
            Some(Err(Interrupted::Signal))
        } else {
            let is_late = deadline.is_some_and(|deadline| timer::read_counter() >= deadline);
            is_late.then_some(Err(Interrupted::Time))
        };
        if found.is_none() {
            // Who cannot be told for lack of memory looks again when others have had their turn.
            leave(if is_told { Leaving::Parked(deadline) } else { Leaving::Ready });
        }
        waiters.iter().for_each(|waiters| waiters.leave(&thread));
        if let Some(found) = found {
            return found;
        }
    }
}
