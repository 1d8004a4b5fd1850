//! Locks whose waiters spin, and the order of all locks, whose table is `order`. A kernel built with the feature `checked` panics if a lock is
//! taken out of order, if one whose owner has interrupts open is taken with interrupts masked, and if a thread leaves its CPU with one whose
//! owner stays. Other builds keep no trace of it.

use core::cell::UnsafeCell;

use hardware::lock::Pause;
use kerncore::lock_order::Class;
use spin::mutex::{SpinMutex, SpinMutexGuard};

pub(crate) mod checked;
pub(crate) mod order;

use checked::Place;

/// A value that one CPU at a time works with, interrupts masked.
pub(crate) struct Lock<T> {
    place: Place,
    lock: hardware::lock::Lock<T>,
}

impl<T> Lock<T> {
    pub(crate) const fn new(class: Class, value: T) -> Self {
        Self { place: Place::new(class), lock: hardware::lock::Lock::new(value) }
    }

    /// Runs `body` with the value, interrupts masked.
    #[inline(always)]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.place.check();
        self.lock.with(|value| {
            // Not before: an interrupt may take locks that stand before it.
            let _held = self.place.hold();
            body(value)
        })
    }

    /// Runs `body` with the value, for a machine that is coming to its end.
    pub(crate) fn with_at_the_end<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.lock.with_at_the_end(body)
    }
}

/// A value that one thread, or one CPU between threads, at a time works with, interrupts open: for work that takes longer the more a program
/// has. Its owner stays on its CPU, so that waiters spin, and never wait for one of their own CPU.
pub(crate) struct OpenLock<T> {
    place: Place,
    turn: SpinMutex<(), Pause>,
    value: UnsafeCell<T>,
}

// SAFETY: who has the turn alone reaches the value.
unsafe impl<T: Send> Sync for OpenLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for OpenLock<T> {}

impl<T> OpenLock<T> {
    pub(crate) const fn new(class: Class, value: T) -> Self {
        Self { place: Place::new(class), turn: SpinMutex::new(()), value: UnsafeCell::new(value) }
    }

    /// Runs `body` with the value.
    #[inline(always)]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.place.check();
        let _held = self.place.hold();
        let turn = self.turn.try_lock_weak().unwrap_or_else(|| self.wait());
        // SAFETY: the turn is this thread's until it is dropped.
        let result = body(unsafe { &mut *self.value.get() });
        drop(turn);
        result
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> SpinMutexGuard<'_, (), Pause> {
        self.turn.lock()
    }
}
