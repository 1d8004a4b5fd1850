//! A machine made of a map: memory for descriptors, and a record of what was done.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use pagetable::{Change, El1, PageTable, Platform, Reserve, Scope, Slot, TlbFeatures};
use vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Layout, LeafSize, Maintenance, PhysAddr, Stage1Attributes, VirtAddr,
};

/// Where tables come from.
pub(crate) const TABLES: u64 = 0x8000_0000;

/// Memory that remembers every descriptor stored, and poisons what was never stored.
#[derive(Default)]
pub(crate) struct Memory {
    words: RefCell<BTreeMap<u64, u64>>,
    pub(crate) stores: Cell<usize>,
    pub(crate) maintenance: RefCell<Vec<Maintenance>>,
    next_table: Cell<u64>,
}

impl Platform for Memory {
    fn load(&self, slot: Slot) -> Descriptor {
        let address = slot.address().bits();
        Descriptor::new(*self.words.borrow().get(&address).unwrap_or(&0xdead_beef_dead_beef))
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.words.borrow_mut().insert(slot.address().bits(), descriptor.bits());
        self.stores.set(self.stores.get() + 1);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let held = self.load(slot);
        if held != old {
            return Err(held);
        }
        self.store(slot, new);
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        self.maintenance.borrow_mut().push(operation);
    }
}

impl Memory {
    /// All that was ever stored.
    pub(crate) fn words(&self) -> BTreeMap<u64, u64> {
        self.words.borrow().clone()
    }

    /// Puts a descriptor there behind the engine's back.
    pub(crate) fn poke(&self, slot: Slot, bits: u64) {
        self.words.borrow_mut().insert(slot.address().bits(), bits);
    }

    /// Adds `count` fresh tables, full of poison, to a reserve.
    pub(crate) fn supply<G: Granule>(&self, reserve: &mut Reserve, count: usize) {
        for _ in 0..count {
            let number = self.next_table.get();
            self.next_table.set(number + 1);
            reserve.add(self, PhysAddr::new(TABLES + number * G::SIZE_BYTES));
        }
    }
}

/// The kernel's regime, with every feature of TLB maintenance.
pub(crate) const KERNEL: El1 = El1 {
    scope: Scope::Global,
    tlb: TlbFeatures { range: true, level_hints: true, repeat: false },
    hardware_updates: false,
};

/// The kernel's regime on a CPU without any.
pub(crate) const PLAIN_KERNEL: El1 = El1 {
    scope: Scope::Global,
    tlb: TlbFeatures { range: false, level_hints: false, repeat: false },
    hardware_updates: false,
};

/// An empty page table of the lower half, not live.
pub(crate) fn offline<'m, G: Granule>(memory: &'m Memory, bits: u32, layout: Layout) -> PageTable<'m, G, El1, Memory> {
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, 1);
    let geometry = Geometry::new(bits, layout, AddressHalf::Lower).unwrap();
    PageTable::offline(memory, geometry, KERNEL, &mut reserve).unwrap()
}

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Inner shareable, accessed, never executable, memory type 0.
pub(crate) const DATA: Stage1Attributes =
    Stage1Attributes::INNER_SHAREABLE.union(Stage1Attributes::AF).union(Stage1Attributes::NO_EXECUTE);

pub(crate) fn map(from: u64, bytes: u64, to: u64, largest: LeafSize) -> Change<El1> {
    let from = VirtAddr::new(from)..VirtAddr::new(from + bytes);
    Change::Map { from, to: PhysAddr::new(to), attributes: DATA, largest }
}

pub(crate) fn read_only(from: u64, bytes: u64) -> Change<El1> {
    let from = VirtAddr::new(from)..VirtAddr::new(from + bytes);
    Change::Protect { from, set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty() }
}

pub(crate) fn unmap(from: u64, bytes: u64) -> Change<El1> {
    Change::Unmap { from: VirtAddr::new(from)..VirtAddr::new(from + bytes) }
}
