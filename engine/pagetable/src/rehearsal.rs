//! What a change would do, step by step, without doing it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;

use vmsa::{Descriptor, Maintenance};

use crate::platform::{Platform, Slot};
use crate::step::Step;
use crate::tables::Reserve;

/// A platform that reads another, keeps its own stores to itself, and remembers every step but loads.
#[derive(Debug)]
pub struct Rehearsal<'p, P: Platform> {
    platform: &'p P,
    stored: RefCell<BTreeMap<Slot, Descriptor>>,
    steps: RefCell<Vec<Step>>,
}

impl<'p, P: Platform> Rehearsal<'p, P> {
    /// A rehearsal that begins with what `platform` holds.
    pub const fn new(platform: &'p P) -> Self {
        Self { platform, stored: RefCell::new(BTreeMap::new()), steps: RefCell::new(Vec::new()) }
    }

    /// A reserve with the same tables, for use in this rehearsal alone.
    pub fn reserve(&self, reserve: &Reserve) -> Reserve {
        reserve.alias()
    }

    /// The steps so far.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps.into_inner()
    }

    /// The steps so far, which are forgotten.
    pub(crate) fn take_steps(&self) -> Vec<Step> {
        self.steps.take()
    }

    /// A copy of what was stored.
    pub(crate) fn descriptors(&self) -> BTreeMap<Slot, Descriptor> {
        self.stored.borrow().clone()
    }
}

impl<P: Platform> Platform for Rehearsal<'_, P> {
    fn load(&self, slot: Slot) -> Descriptor {
        self.stored.borrow().get(&slot).copied().unwrap_or_else(|| self.platform.load(slot))
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.stored.borrow_mut().insert(slot, descriptor);
        self.steps.borrow_mut().push(Step::Store(slot, descriptor));
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let found = self.load(slot);
        self.steps.borrow_mut().push(Step::Exchange { slot, expected: old, new, found });
        if found != old {
            return Err(found);
        }
        self.stored.borrow_mut().insert(slot, new);
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        self.steps.borrow_mut().push(Step::Maintain(operation));
    }
}
