//! Waiting until something is so: who waits is told when it may be.
//!
//! ```text
//! Waiters ── first ──▶ Waiter ◀──▶ Waiter ◀──▶ Waiter ◀── last        each lies on its thread's stack: to enter and to leave
//!                                                                     takes no memory, and as long however many there are
//! ```

use alloc::vec::Vec;
use core::cell::Cell;
use core::ptr;

use hardware::timer;

use super::dispatcher::leave;
use super::queue;
use super::thread::{Leaving, Thread, current};
use crate::fallible::{Arc, List, NoMemory};
use crate::locks::{Lock, order};

/// A thread that waits, and its neighbours among those that wait for the same thing.
struct Waiter {
    thread: Arc<Thread>,
    /// Who came later has a higher one; 0 while it is in no list.
    ticket: Cell<u64>,
    before: Cell<*const Waiter>,
    behind: Cell<*const Waiter>,
}

impl Waiter {
    const fn new(thread: Arc<Thread>) -> Self {
        Self { thread, ticket: Cell::new(0), before: Cell::new(ptr::null()), behind: Cell::new(ptr::null()) }
    }
}

/// Those that wait for one thing, in the order in which they came.
struct Ends {
    first: *const Waiter,
    last: *const Waiter,
    tickets: u64,
}

// SAFETY: who has the lock alone follows the pointers.
unsafe impl Send for Ends {}

impl Ends {
    /// # Safety
    ///
    /// The waiter is in no list, and stays where it is until [`Self::remove`].
    unsafe fn push(&mut self, waiter: &Waiter) {
        self.tickets += 1;
        waiter.ticket.set(self.tickets);
        waiter.before.set(self.last);
        waiter.behind.set(ptr::null());
        // SAFETY: who is in the list is there.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.behind.set(waiter),
            None => self.first = waiter,
        }
        self.last = waiter;
    }

    /// The same, before all others.
    ///
    /// # Safety
    ///
    /// As of [`Self::push`].
    unsafe fn push_first(&mut self, waiter: &Waiter) {
        // SAFETY: who is in the list is there.
        let Some(first) = (unsafe { self.first.as_ref() }) else {
            // SAFETY: the caller answers for it.
            return unsafe { self.push(waiter) };
        };
        waiter.ticket.set(first.ticket.get());
        waiter.before.set(ptr::null());
        waiter.behind.set(first);
        first.before.set(waiter);
        self.first = waiter;
    }

    /// Takes a waiter out, if it is still in.
    fn remove(&mut self, waiter: &Waiter) {
        if waiter.ticket.replace(0) == 0 {
            return;
        }
        let (before, behind) = (waiter.before.get(), waiter.behind.get());
        // SAFETY: who is in the list is there.
        match unsafe { before.as_ref() } {
            Some(before) => before.behind.set(behind),
            None => self.first = behind,
        }
        // SAFETY: as above.
        match unsafe { behind.as_ref() } {
            Some(behind) => behind.before.set(before),
            None => self.last = before,
        }
    }

    /// Takes the first out, if it has a ticket up to this one.
    fn take(&mut self, last: u64) -> Option<Arc<Thread>> {
        // SAFETY: who is in the list is there.
        let first = unsafe { self.first.as_ref() }.filter(|first| first.ticket.get() <= last)?;
        self.remove(first);
        Some(first.thread.clone())
    }
}

/// Threads that wait for one thing.
pub(crate) struct Waiters(Lock<Ends>);

/// Why a wait ended without what it was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupted {
    Signal,
    Time,
}

impl Waiters {
    pub(crate) const fn new() -> Self {
        Self(Lock::new(order::WAITERS, Ends { first: ptr::null(), last: ptr::null(), tickets: 0 }))
    }

    /// It may be so now: whoever waits by now is woken, one at a time.
    #[inline(never)]
    pub(crate) fn wake_all(&self) {
        let mut last = None;
        while let Some(thread) = self.0.with(|all| all.take(*last.get_or_insert(all.tickets))) {
            queue::wake(&thread);
        }
    }

    /// It may be so now for one: whoever is the first is woken.
    pub(super) fn wake_first(&self) {
        self.0.with(|all| all.take(u64::MAX)).inspect(queue::wake);
    }

    /// Runs `body` as one that is woken when it may be so: before all others, or behind them.
    pub(super) fn with<T>(&self, thread: &Arc<Thread>, is_first: bool, body: impl FnOnce() -> T) -> T {
        let waiter = Waiter::new(thread.clone());
        let push = if is_first { Ends::push_first } else { Ends::push };
        // SAFETY: it is on this stack until it is removed.
        self.0.with(|all| unsafe { push(all, &waiter) });
        let result = body();
        self.0.with(|all| all.remove(&waiter));
        result
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
    lists: &[&Waiters],
    deadline: Option<u64>,
    is_ready: &mut dyn FnMut() -> bool,
) -> Result<(), Interrupted> {
    let thread = current();
    let (one, many);
    let waiters: &[Waiter] = match lists {
        [_] => {
            one = [Waiter::new(thread.clone())];
            &one
        }
        _ => {
            many = several(&thread, lists.len()).unwrap_or_default();
            &many
        }
    };
    let is_told = waiters.len() == lists.len();
    loop {
        if thread.owner.is_held() {
            leave(Leaving::Parked(None));
            continue;
        }
        // SAFETY: they are in no list, and stay where they are until they are removed below.
        lists.iter().zip(waiters).for_each(|(list, waiter)| list.0.with(|all| unsafe { all.push(waiter) }));
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
        lists.iter().zip(waiters).for_each(|(list, waiter)| list.0.with(|all| all.remove(waiter)));
        if let Some(found) = found {
            return found;
        }
    }
}

/// So many waiters of one thread.
fn several(thread: &Arc<Thread>, count: usize) -> Result<Vec<Waiter>, NoMemory> {
    let mut all = Vec::new();
    all.try_extend((0..count).map(|_| Waiter::new(thread.clone())))?;
    Ok(all)
}
