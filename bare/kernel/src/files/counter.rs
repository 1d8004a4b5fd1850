//! Numbers that one program adds to and another takes: `eventfd`.

use crate::locks::{Lock, order};
use crate::threads::waiters::Waiters;

/// The most that it counts to.
pub(crate) const MOST: u64 = u64::MAX - 1;

/// A number.
pub(crate) struct Counter {
    value: Lock<u64>,
    /// EFD_SEMAPHORE: each reader takes one, and not all.
    takes_one: bool,
    pub(crate) waiters: Waiters,
}

impl Counter {
    pub(crate) fn new(value: u64, takes_one: bool) -> Self {
        Self { value: Lock::new(order::COUNTER, value), takes_one, waiters: Waiters::new() }
    }

    pub(crate) fn value(&self) -> u64 {
        self.value.with(|value| *value)
    }

    /// Takes what a reader gets; none if it is 0, and one has to wait.
    pub(crate) fn take(&self) -> Option<u64> {
        let taken = self.value.with(|value| {
            let taken = if self.takes_one { 1.min(*value) } else { *value };
            *value -= taken;
            Some(taken).filter(|taken| *taken > 0)
        });
        taken.iter().for_each(|_| self.waiters.wake_all());
        taken
    }

    /// Adds to it; none if that is too much by now, and one has to wait.
    pub(crate) fn add(&self, more: u64) -> Option<()> {
        let is_added = self.value.with(|value| {
            let is_room = more <= MOST - *value;
            *value += if is_room { more } else { 0 };
            is_room
        });
        if is_added && more > 0 {
            self.waiters.wake_all();
        }
        is_added.then_some(())
    }
}
