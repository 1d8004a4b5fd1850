//! A turn that one thread at a time has. Waiters sleep, and each release wakes the one that has waited longest: to wake all of them would
//! take time that grows with the square of their number.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use hardware::interrupts;
use hardware::lock::Lock;

use super::dispatcher::leave;
use super::queue;
use super::thread::{Leaving, Thread, try_current};
use crate::fallible::{Arc, Weak};

/// A turn that one thread at a time has.
pub(super) struct Turn {
    is_taken: AtomicBool,
    /// How many are among the waiters, or about to be.
    sleepers: AtomicUsize,
    /// In the order in which they get it. [`Thread::awaits_turn`] of each is set.
    waiters: Lock<VecDeque<Weak<Thread>>>,
}

impl Turn {
    pub(super) const fn new() -> Self {
        let waiters = Lock::new(VecDeque::new());
        Self { is_taken: AtomicBool::new(false), sleepers: AtomicUsize::new(0), waiters }
    }

    /// Waits for it.
    #[inline(always)]
    pub(super) fn take(&self) {
        if !self.try_take() {
            self.wait(&|| false);
        }
    }

    /// The same, unless the thread is to end. Whether it has it.
    pub(super) fn take_unless_dying(&self) -> bool {
        self.try_take() || self.wait(&|| try_current().is_some_and(|thread| thread.owner.is_dying()))
    }

    #[inline(always)]
    pub(super) fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives turns back, each of which this thread has.
    #[inline(always)]
    pub(super) fn give_back<'a>(turns: impl Iterator<Item = &'a Self> + Clone) {
        turns.clone().for_each(|turn| turn.is_taken.store(false, Ordering::Release));
        // Whoever counted itself before this look is woken; who does after it finds the turn free.
        fence(Ordering::SeqCst);
        turns.filter(|turn| turn.sleepers.load(Ordering::Relaxed) > 0).for_each(Self::wake_first);
    }

    /// Waits until it has the turn, or `gives_up` holds. Whether it has it.
    #[cold]
    #[inline(never)]
    fn wait(&self, gives_up: &dyn Fn() -> bool) -> bool {
        let mut is_first = false;
        loop {
            if gives_up() {
                // It may have been woken for this turn: then it is for the next.
                self.wake_first();
                return false;
            }
            self.sleep(is_first);
            if self.try_take() {
                return true;
            }
            // Somebody was faster: it keeps its place.
            is_first = true;
        }
    }

    fn sleep(&self, is_first: bool) {
        let Some(thread) = try_current() else { return interrupts::pause() };
        let is_told = self.waiters.with(|waiters| enter(waiters, &thread, is_first));
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Free between the look and the entry: nobody wakes.
        if self.is_taken.load(Ordering::Acquire) {
            // Who cannot be told for lack of memory looks again when others have had their turn.
            leave(if is_told { Leaving::Parked(None) } else { Leaving::Ready });
        }
        let empty = self.waiters.with(|waiters| {
            if thread.awaits_turn.replace(false) {
                waiters.retain(|one| !core::ptr::eq(one.as_ptr(), Arc::as_ptr(&thread)));
            }
            waiters.is_empty().then(|| core::mem::take(waiters))
        });
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        // What nobody waits for holds no memory; it is freed without the lock.
        drop(empty);
    }

    /// Has the one look that has waited longest, if one waits.
    fn wake_first(&self) {
        let first = self.waiters.with(|waiters| {
            let first = waiters.pop_front()?.upgrade();
            first.inspect(|thread| thread.awaits_turn.set(false))
        });
        first.inspect(queue::wake);
    }
}

/// Adds a thread, before all others or behind them. Whether there was memory for it.
fn enter(waiters: &mut VecDeque<Weak<Thread>>, thread: &Arc<Thread>, is_first: bool) -> bool {
    // The comparison leaves the compiler no way to a queue that grows.
    let has_room = waiters.try_reserve(1).is_ok() && waiters.len() < waiters.capacity();
    if has_room {
        thread.awaits_turn.set(true);
        let one = Arc::downgrade(thread);
        if is_first { waiters.push_front(one) } else { waiters.push_back(one) }
    }
    has_room
}
