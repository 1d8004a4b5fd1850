//! A lock whose waiters sleep: for what takes long. The dispatcher takes none.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use hardware::interrupts;

use super::dispatcher::leave;
use super::thread::{Leaving, try_current};
use super::waiters::Waiters;
use crate::process::errno::{EINTR, Errno};

/// A turn that one thread at a time has.
pub(super) struct Turn {
    is_taken: AtomicBool,
    /// How many are among the waiters, or about to be.
    sleepers: AtomicUsize,
    waiters: Waiters,
}

impl Turn {
    pub(super) const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), sleepers: AtomicUsize::new(0), waiters: Waiters::new() }
    }

    /// Waits for it.
    #[inline(always)]
    pub(super) fn take(&self) {
        while !self.try_take() {
            self.sleep();
        }
    }

    /// The same, unless the thread is to end. Whether it has it.
    fn take_unless_dying(&self) -> bool {
        while !self.try_take() {
            if try_current().is_some_and(|thread| thread.owner.is_dying()) {
                return false;
            }
            self.sleep();
        }
        true
    }

    #[inline(always)]
    fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives turns back, each of which this thread has.
    #[inline(always)]
    pub(super) fn give_back<'a>(turns: impl Iterator<Item = &'a Self> + Clone) {
        turns.clone().for_each(|turn| turn.is_taken.store(false, Ordering::Release));
        // Whoever counted itself before this look is woken; who does after it finds the turn free.
        fence(Ordering::SeqCst);
        turns.filter(|turn| turn.sleepers.load(Ordering::Relaxed) > 0).for_each(|turn| turn.waiters.wake_all());
    }

    // Seldom needed, and not in every place that locks.
    #[cold]
    #[inline(never)]
    fn sleep(&self) {
        match try_current() {
            Some(thread) => {
                let is_told = self.waiters.enter(&thread).is_ok();
                self.sleepers.fetch_add(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                // Free between the look and the entry: nobody wakes.
                if self.is_taken.load(Ordering::Acquire) {
                    // Who cannot be told for lack of memory looks again when others have had their turn.
                    leave(if is_told { Leaving::Parked(None) } else { Leaving::Ready });
                }
                self.waiters.leave(&thread);
                self.sleepers.fetch_sub(1, Ordering::Relaxed);
            }
            None => interrupts::pause(),
        }
    }
}

/// A value that one thread at a time works with.
pub(crate) struct Mutex<T> {
    turn: Turn,
    value: UnsafeCell<T>,
}

// SAFETY: `turn` lets one thread at a time to the value.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { turn: Turn::new(), value: UnsafeCell::new(value) }
    }

    /// Runs `body` with the value. Not twice by one thread. For what is never held for long.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.turn.take();
        self.run(body)
    }

    /// Runs `body` with the value, for which a program may have others wait: who waits can be killed (EINTR). Not twice by one thread.
    pub(crate) fn with_or_end<R>(&self, body: impl FnOnce(&mut T) -> Result<R, Errno>) -> Result<R, Errno> {
        if self.turn.take_unless_dying() { self.run(body) } else { Err(EINTR) }
    }

    /// Runs `body` with the value, and gives the turn back, which this thread has.
    fn run<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: taken.
        let result = body(unsafe { &mut *self.value.get() });
        Turn::give_back(core::iter::once(&self.turn));
        result
    }
}
