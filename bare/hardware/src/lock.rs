//! A lock. Interrupts are masked while it is held, so that a handler may take the same lock.

use core::cell::UnsafeCell;

use spin::RelaxStrategy;
use spin::mutex::{SpinMutex, SpinMutexGuard};

use crate::interrupts;

/// Waits by telling emulators to run somebody else. In the kernel who waits, interrupts masked or not, parks when asked to: the
/// lock may be held by who asks.
pub struct Pause;

impl RelaxStrategy for Pause {
    fn relax() {
        #[cfg(feature = "kernel")]
        crate::parking::answer();
        interrupts::pause();
    }
}

/// A value that one CPU at a time works with.
// Beside the turn: behind a byte the compiler takes the value for bytes, and moves it by odd addresses, a word in eight instructions.
pub struct Lock<T> {
    turn: SpinMutex<(), Pause>,
    value: UnsafeCell<T>,
}

// SAFETY: who has the turn alone reaches the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Nobody has it.
    pub const fn new(value: T) -> Self {
        Self { turn: SpinMutex::new(()), value: UnsafeCell::new(value) }
    }

    /// Runs `body` with the value, interrupts masked.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let masks = interrupts::mask();
        let turn = self.turn.try_lock_weak().unwrap_or_else(|| self.wait());
        // SAFETY: the turn is this CPU's until it is dropped.
        let result = body(unsafe { &mut *self.value.get() });
        drop(turn);
        interrupts::restore(masks);
        result
    }

    // Apart, so that who finds it free needs no registers for this.
    #[cold]
    #[inline(never)]
    fn wait(&self) -> SpinMutexGuard<'_, (), Pause> {
        self.turn.lock()
    }

    /// As [`Self::with`], for a machine that is coming to its end: who holds the lock for long may never let go.
    pub fn with_at_the_end<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _masks = interrupts::mask();
        for _ in 0..1 << 22 {
            if let Some(_turn) = self.turn.try_lock() {
                // SAFETY: as above.
                return body(unsafe { &mut *self.value.get() });
            }
            interrupts::pause();
        }
        // SAFETY: whoever holds it is this CPU, interrupted for good, or one that is stuck; the machine ends with this
        // report.
        unsafe { self.turn.force_unlock() };
        let _turn = self.turn.lock();
        // SAFETY: as above.
        body(unsafe { &mut *self.value.get() })
    }
}
