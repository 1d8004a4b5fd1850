//! A lock whose waiters sleep: for what takes long. The dispatcher takes none.

use core::cell::UnsafeCell;

use super::turn::Turn;
use crate::errno::{EINTR, Errno};
use crate::locks::checked::Place;
use kerncore::lock_order::Class;

/// A value that one thread at a time works with.
pub(crate) struct Mutex<T> {
    place: Place,
    turn: Turn,
    value: UnsafeCell<T>,
}

// SAFETY: `turn` lets one thread at a time to the value.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) const fn new(class: Class, value: T) -> Self {
        Self { place: Place::new(class), turn: Turn::new(), value: UnsafeCell::new(value) }
    }

    /// Runs `body` with the value. Not twice by one thread. For what is never held for long.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.place.check();
        let _held = self.place.hold();
        self.turn.take();
        self.run(body)
    }

    /// Runs `body` with the value, for which a program may have others wait: who waits can be killed (EINTR). Not twice by one thread.
    pub(crate) fn with_or_end<R>(&self, body: impl FnOnce(&mut T) -> Result<R, Errno>) -> Result<R, Errno> {
        self.place.check();
        let _held = self.place.hold();
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
