//! Loads, counted.

use std::cell::Cell;

use vellum_pagetable::{Memory, Platform, Slot};
use vellum_vmsa::{Descriptor, Maintenance};

/// A platform that counts loads.
pub(crate) struct Counting<'m>(pub(crate) &'m Memory, pub(crate) Cell<usize>);

impl Platform for Counting<'_> {
    fn load(&self, slot: Slot) -> Descriptor {
        self.1.set(self.1.get() + 1);
        assert!(self.1.get() < 100_000, "a hole is walked page by page");
        self.0.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.0.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.0.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.0.maintain(operation);
    }
}
