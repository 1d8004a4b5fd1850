//! A lock of parts, whose waiters sleep: who has one excludes who wants the same, and who has the whole excludes everybody.
//!
//! ```text
//!   a part      ── one turn ──▶ reads the value beside others        each turn is on a cache line of its own, so that
//!   the whole   ── every turn, in order ──▶ alone                    who has different parts writes no line in common
//! ```

use core::cell::UnsafeCell;
use core::slice;

use kerncore::lock_order::Class;
use userspace::PARTS;

use super::turn::Turn;
use crate::locks::checked::Place;

/// A turn on a cache line of its own.
#[repr(align(64))]
struct Lane(Turn);

/// A value that threads read, each with a part of its own, or that one works with.
pub(crate) struct Parted<T> {
    place: Place,
    lanes: [Lane; PARTS],
    value: UnsafeCell<T>,
}

// SAFETY: who has one turn gets a shared reference, as others may beside; who has all of them is the only one.
unsafe impl<T: Send + Sync> Sync for Parted<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Parted<T> {}

impl<T> Parted<T> {
    pub(crate) const fn new(class: Class, value: T) -> Self {
        Self { place: Place::new(class), lanes: [const { Lane(Turn::new()) }; PARTS], value: UnsafeCell::new(value) }
    }

    /// Runs `body` with the value, and nobody beside. Not by who has it in any way.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.place.check();
        let _held = self.place.hold();
        take_all(&self.lanes);
        // SAFETY: all turns are taken.
        let result = body(unsafe { &mut *self.value.get() });
        give_all_back(&self.lanes);
        result
    }

    /// Runs `body` with the value, beside who has other parts. Not by who has it in any way.
    #[inline(always)]
    pub(crate) fn with_part<R>(&self, part: usize, body: impl FnOnce(&T) -> R) -> R {
        self.place.check();
        let _held = self.place.hold();
        let lane = &self.lanes[part % PARTS];
        lane.0.take();
        // SAFETY: one turn is taken, so that nobody has the whole.
        let result = body(unsafe { &*self.value.get() });
        Turn::give_back(slice::from_ref(lane).iter().map(|lane| &lane.0));
        result
    }

    /// Runs `body` with the value, by whatever part is free. Nothing if none is.
    pub(crate) fn try_with<R>(&self, body: impl FnOnce(&T) -> R) -> Option<R> {
        self.place.check();
        let _held = self.place.hold();
        let lane = self.lanes.iter().find(|lane| lane.0.try_take())?;
        // SAFETY: one turn is taken, so that nobody has the whole.
        let result = body(unsafe { &*self.value.get() });
        Turn::give_back(slice::from_ref(lane).iter().map(|lane| &lane.0));
        Some(result)
    }
}

// Apart, so that they are not in every place that locks.
#[inline(never)]
fn take_all(lanes: &[Lane; PARTS]) {
    // In one order, so that no two wait for each other.
    lanes.iter().for_each(|lane| lane.0.take());
}

#[inline(never)]
fn give_all_back(lanes: &[Lane; PARTS]) {
    Turn::give_back(lanes.iter().map(|lane| &lane.0));
}
