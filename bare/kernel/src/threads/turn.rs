//! A turn that one thread at a time has. Waiters sleep, and each release wakes the one that has waited longest: to wake all of them would
//! take time that grows with the square of their number.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use hardware::interrupts;

use super::dispatcher::leave;
use super::thread::{Leaving, try_current};
use super::waiters::Waiters;

/// A turn that one thread at a time has.
pub(super) struct Turn {
    is_taken: AtomicBool,
    /// How many are among the waiters, or about to be.
    sleepers: AtomicUsize,
    /// In the order in which they get it.
    waiters: Waiters,
}

impl Turn {
    pub(super) const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), sleepers: AtomicUsize::new(0), waiters: Waiters::new() }
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
        turns.filter(|turn| turn.sleepers.load(Ordering::Relaxed) > 0).for_each(|turn| turn.waiters.wake_first());
    }

    /// Waits until it has the turn, or `gives_up` holds. Whether it has it.
    #[cold]
    #[inline(never)]
    fn wait(&self, gives_up: &dyn Fn() -> bool) -> bool {
        let mut is_first = false;
        loop {
            if gives_up() {
                // It may have been woken for this turn: then it is for the next.
                self.waiters.wake_first();
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
        self.waiters.with(&thread, is_first, || {
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            // Free between the look and the entry: nobody wakes.
            if self.is_taken.load(Ordering::Acquire) {
                leave(Leaving::Parked(None));
            }
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        });
    }
}
