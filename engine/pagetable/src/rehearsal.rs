//! What a change would do, step by step, without doing it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use vmsa::{Descriptor, Maintenance};

use crate::platform::{Platform, Slot};
use crate::tables::Reserve;

/// One action on a machine, as data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A descriptor is written.
    Store(Slot, Descriptor),
    /// A descriptor is written if the slot holds the first one.
    Exchange(Slot, Descriptor, Descriptor),
    /// A barrier or TLBI.
    Maintain(Maintenance),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(slot, new) => write!(f, "store {slot:?} <- {new:?}"),
            Self::Exchange(slot, old, new) => write!(f, "exchange {slot:?} {old:?} -> {new:?}"),
            Self::Maintain(operation) => operation.fmt(f),
        }
    }
}

/// A platform that reads another, keeps its own stores to itself, and remembers every step.
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
        self.steps.borrow_mut().push(Step::Exchange(slot, old, new));
        let held = self.load(slot);
        if held != old {
            return Err(held);
        }
        self.stored.borrow_mut().insert(slot, new);
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        self.steps.borrow_mut().push(Step::Maintain(operation));
    }
}
