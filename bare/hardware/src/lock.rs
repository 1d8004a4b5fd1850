//! A lock. Interrupts are masked while it is held, so that a handler may take the same lock.

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
pub struct Lock<T>(SpinMutex<T, Pause>);

impl<T> Lock<T> {
    /// Nobody has it.
    pub const fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }

    /// Runs `body` with the value, interrupts masked.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let masks = interrupts::mask();
        let result = body(&mut self.0.try_lock_weak().unwrap_or_else(|| self.wait()));
        interrupts::restore(masks);
        result
    }

    // Apart, so that who finds it free needs no registers for this.
    #[cold]
    #[inline(never)]
    fn wait(&self) -> SpinMutexGuard<'_, T, Pause> {
        self.0.lock()
    }

    /// As [`Self::with`], for a machine that is coming to its end: who holds the lock for long may never let go.
    pub fn with_at_the_end<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _masks = interrupts::mask();
        for _ in 0..1 << 22 {
            if let Some(mut value) = self.0.try_lock() {
                return body(&mut value);
            }
            interrupts::pause();
        }
        // SAFETY: whoever holds it is this CPU, interrupted for good, or one that is stuck; the machine ends with this
        // report.
        unsafe { self.0.force_unlock() };
        body(&mut self.0.lock())
    }
}
