//! The engine's door to this machine.

use core::sync::atomic::{AtomicU64, Ordering};

use pagetable::{Platform, Slot};
use vmsa::{Descriptor, Maintenance};

use crate::maintenance::maintain;

/// This machine: its tables at a constant distance from their physical addresses, its barriers and its TLBs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// Virtual minus physical address of every table.
    offset: u64,
}

impl Hardware {
    /// The machine, with every table reached `offset` bytes above its physical address (0: the MMU is off, or tables
    /// are mapped at their physical addresses).
    ///
    /// # Safety
    ///
    /// Editing a page table that is live changes memory under everyone's feet, and this is where the responsibility is
    /// taken. For as long as this value or a copy of it is used,
    /// - every page that an engine is given as a table, and every table of a page table that it edits, is mapped
    ///   writable at that distance as Normal write-back memory (or the MMU is off), and no Rust reference leads to it;
    /// - each page table is edited by one engine at a time; many may read;
    /// - no change to a live page table unmaps, moves or write-protects memory that a Rust reference leads to or a CPU
    ///   runs on, or makes memory that one may not touch reachable by a second way.
    pub const unsafe fn new(offset: u64) -> Self {
        Self { offset }
    }

    /// Virtual minus physical address of every table.
    pub const fn offset(self) -> u64 {
        self.offset
    }

    fn pointer(self, slot: Slot) -> *mut u64 {
        slot.address().bits().wrapping_add(self.offset) as *mut u64
    }
}

impl Platform for Hardware {
    #[inline(always)]
    fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the promise of `new`. One 64-bit access, which is single-copy atomic beside walkers and other CPUs.
        Descriptor::new(unsafe { self.pointer(slot).read_volatile() })
    }

    #[inline(always)]
    fn store(&self, slot: Slot, descriptor: Descriptor) {
        // SAFETY: the promise of `new`. One 64-bit access, so no walker sees half a descriptor.
        unsafe { self.pointer(slot).write_volatile(descriptor.bits()) };
    }

    #[inline(always)]
    fn load_pair(&self, slot: Slot) -> [Descriptor; 2] {
        // SAFETY: the promise of `new`; slots of even numbers are 16-byte aligned. It is an LDP of two registers, of which each is
        // one 64-bit access.
        let pair = unsafe { self.pointer(slot).cast::<u128>().read_volatile() };
        [Descriptor::new(pair as u64), Descriptor::new((pair >> 64) as u64)]
    }

    #[inline(always)]
    fn store_pair(&self, slot: Slot, [one, next]: [Descriptor; 2]) {
        let pair = u128::from(one.bits()) | u128::from(next.bits()) << 64;
        // SAFETY: as of `load_pair`, by an STP.
        unsafe { self.pointer(slot).cast::<u128>().write_volatile(pair) };
    }

    #[inline(always)]
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        // SAFETY: the promise of `new`; slots are 8-byte aligned. Relaxed, because the engine asks for its barriers
        // itself.
        let descriptor = unsafe { AtomicU64::from_ptr(self.pointer(slot)) };
        match descriptor.compare_exchange(old.bits(), new.bits(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(found) => Err(Descriptor::new(found)),
        }
    }

    #[inline(always)]
    fn maintain(&self, operation: Maintenance) {
        maintain(operation);
    }
}
