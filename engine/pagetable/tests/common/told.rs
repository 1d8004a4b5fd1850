//! Memory that tells what is done to it, as one number.

use std::cell::{Cell, RefCell};
use std::hash::Hasher;

use seed::{Digest, Seed};
use vellum_pagetable::{Platform, Reserve, Slot};
use vellum_vmsa::{Descriptor, Granule, Maintenance, PhysAddr};

use super::TABLES;

const ACCESS_FLAG: u64 = 1 << 10;

/// Memory that tells what is done to it, and whose hardware marks a leaf now and then just before that is exchanged.
pub(crate) struct Told {
    words: RefCell<Vec<u64>>,
    seed: Cell<Seed>,
    digest: RefCell<Digest>,
    loads: Cell<u32>,
    stores: Cell<u32>,
    exchanges: Cell<u32>,
    operations: Cell<u32>,
}

impl Told {
    pub(crate) fn new(seed: Seed) -> Self {
        let (words, digest) = (RefCell::default(), RefCell::new(Digest::new()));
        let [loads, stores, exchanges, operations] = [0; 4].map(Cell::new);
        Self { words, seed: Cell::new(seed), digest, loads, stores, exchanges, operations }
    }

    /// The same memory, of which nothing was told yet.
    pub(crate) fn again(&self) -> Self {
        let again = Self::new(self.seed.get());
        again.words.replace(self.words.borrow().clone());
        again
    }

    /// All that was told, as a number; and how many loads, stores, exchanges and operations there were.
    pub(crate) fn into_counts(self) -> (u64, [u32; 4]) {
        let counts = [self.loads, self.stores, self.exchanges, self.operations].map(Cell::into_inner);
        (self.digest.into_inner().finish(), counts)
    }

    /// The address of so many more bytes, aligned to them, which hold no zeros.
    pub(crate) fn more(&self, bytes: u64) -> PhysAddr {
        let mut words = self.words.borrow_mut();
        let start = (words.len() * 8).next_multiple_of(bytes as usize);
        words.resize((start + bytes as usize) / 8, 0xdead_beef);
        PhysAddr::new(TABLES + start as u64)
    }

    pub(crate) fn supply<G: Granule>(&self, reserve: &mut Reserve, count: usize) {
        (0..count).for_each(|_| reserve.add(self, self.more(G::SIZE_BYTES)));
    }

    pub(crate) fn put(&self, slot: Slot, value: u64) {
        self.words.borrow_mut()[(slot.address().bits() - TABLES) as usize / 8] = value;
    }

    pub(crate) fn tell(&self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.digest.borrow_mut().write_u64(*number));
    }

    pub(crate) fn says(&self, what: &str) {
        self.digest.borrow_mut().write(what.as_bytes());
    }

    fn one_in(&self, n: u64) -> bool {
        let mut seed = self.seed.get();
        let is_drawn = seed.one_in(n);
        self.seed.set(seed);
        is_drawn
    }
}

impl Platform for Told {
    fn load(&self, slot: Slot) -> Descriptor {
        self.loads.set(self.loads.get() + 1);
        Descriptor::new(self.words.borrow()[(slot.address().bits() - TABLES) as usize / 8])
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.stores.set(self.stores.get() + 1);
        self.tell(&[1, slot.address().bits(), descriptor.bits()]);
        self.put(slot, descriptor.bits());
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        if self.one_in(8) {
            let held = self.load(slot).bits();
            self.put(slot, if held & 1 != 0 { held | ACCESS_FLAG } else { held });
        }
        self.exchanges.set(self.exchanges.get() + 1);
        let found = self.load(slot);
        self.tell(&[2, slot.address().bits(), old.bits(), new.bits(), found.bits()]);
        if found != old {
            return Err(found);
        }
        self.put(slot, new.bits());
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        self.operations.set(self.operations.get() + 1);
        self.says(&operation.to_string());
    }

    fn wait_for_views(&self) {
        self.says("views");
    }
}
