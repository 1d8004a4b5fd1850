//! A machine that is a map from slots to descriptors: for doctests, tests, and trying things out.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::Cell;

use vmsa::{Descriptor, Granule, Maintenance, PhysAddr};

use crate::platform::{Platform, Slot};
use crate::rehearsal::Rehearsal;
use crate::step::Step;
use crate::tables::Reserve;

/// Where the first table lies.
const TABLES: PhysAddr = PhysAddr::new(0x8000_0000);
/// What memory holds that was never written. It reads as a valid descriptor, so that a table that was not filled shows.
const POISON: Descriptor = Descriptor::new(0xdead_beef_dead_beef);

/// A machine without hardware that holds descriptors and remembers every [`Step`] but loads: for tests, and to try things out. No
/// table it supplies is zeroed.
#[derive(Debug)]
pub struct Memory {
    held: Rehearsal<'static, Unwritten>,
    next_table: Cell<PhysAddr>,
}

/// Memory that was never written.
#[derive(Debug)]
struct Unwritten;

impl Platform for Unwritten {
    fn load(&self, _: Slot) -> Descriptor {
        POISON
    }

    fn store(&self, _: Slot, _: Descriptor) {}

    fn exchange(&self, _: Slot, _: Descriptor, _: Descriptor) -> Result<(), Descriptor> {
        Err(POISON)
    }

    fn maintain(&self, _: Maintenance) {}
}

impl Memory {
    /// A machine that was never written to. Its tables begin at 2 GiB.
    pub const fn new() -> Self {
        Self { held: Rehearsal::new(&Unwritten), next_table: Cell::new(TABLES) }
    }

    /// Adds `count` tables that were in no use before to `reserve`.
    pub fn supply<G: Granule>(&self, reserve: &mut Reserve, count: usize) {
        for _ in 0..count {
            let table = self.next_table.get();
            let table = table.align_up(G::SIZE_BYTES).unwrap_or(table);
            self.next_table.set(table + G::SIZE_BYTES);
            reserve.add(self, table);
        }
    }

    /// What was done since the machine was made, or since this was last called.
    pub fn take_steps(&self) -> Vec<Step> {
        self.held.take_steps()
    }

    /// A copy of everything that was ever stored.
    pub fn descriptors(&self) -> BTreeMap<Slot, Descriptor> {
        self.held.descriptors()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Platform for Memory {
    fn load(&self, slot: Slot) -> Descriptor {
        self.held.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.held.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.held.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.held.maintain(operation);
    }
}
