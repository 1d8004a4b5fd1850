//! The only door to the machine: four operations on descriptors.

use core::fmt;

use vmsa::{Descriptor, Maintenance, PhysAddr};

/// The physical address of one descriptor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(PhysAddr);

impl Slot {
    /// The slot of number `index` in the table at `table`.
    pub const fn new(table: PhysAddr, index: usize) -> Self {
        Self(PhysAddr::new(table.bits() + ((index as u64) << vmsa::DESCRIPTOR_SHIFT)))
    }

    /// Where the descriptor stands in memory.
    pub const fn address(self) -> PhysAddr {
        self.0
    }

    /// Whether it is of an even number, so that it begins a pair.
    pub(crate) const fn is_even(self) -> bool {
        self.0.is_aligned(2 << vmsa::DESCRIPTOR_SHIFT)
    }

    /// How many slots there are from this one to the next that begins `count` side by side, a power of two.
    pub(crate) const fn up_to(self, count: usize) -> usize {
        count - (self.0.bits() >> vmsa::DESCRIPTOR_SHIFT) as usize % count
    }

    /// The slot `count` places further on in the same table.
    pub(crate) const fn after(self, count: usize) -> Self {
        Self::new(self.0, count)
    }

    /// The first of `count` slots side by side, a power of two, that this one is among.
    pub(crate) const fn first_of(self, count: usize) -> Self {
        Self(self.0.align_down((count as u64) << vmsa::DESCRIPTOR_SHIFT))
    }

    /// The slot `count` places before in the same table.
    pub(crate) const fn before(self, count: usize) -> Self {
        Self(PhysAddr::new(self.0.bits() - ((count as u64) << vmsa::DESCRIPTOR_SHIFT)))
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A machine that holds page tables. A value, never statics, so that one test can own two machines.
///
/// Each operation is single-copy atomic on one descriptor. The engine asks for every barrier it needs through
/// [`Platform::maintain`], so loads and stores need be no stronger than relaxed.
///
/// A load gives what was stored last, or what hardware wrote since. Tables that others wrote may lead outside memory: a slot
/// there reads as [`Descriptor::INVALID`], and what is stored there is dropped.
///
/// # Where maintenance runs
///
/// What a TLBI means depends on the registers of the CPU that executes it. While changes of a page table are applied and
/// while its gathers are finished, that CPU is, for the regime
///
/// | regime | at | HCR_EL2.{E2H, TGE} | and |
/// |---|---|---|---|
/// | [`crate::El1`] | EL1 | | |
/// | [`crate::El2`] | EL2 | {0, x} | |
/// | [`crate::El2And0`] | EL2 | {1, 1} | |
/// | [`crate::Stage2`] | EL2 | not {1, 1} | VTTBR_EL2 holds its VMID |
///
/// with an ISB since any of it was written. The engine cannot see this; a platform may check it.
pub trait Platform: Sized {
    /// Reads a descriptor.
    fn load(&self, slot: Slot) -> Descriptor;

    /// Writes a descriptor.
    fn store(&self, slot: Slot, descriptor: Descriptor);

    /// Writes `new` if the slot holds `old`, else says what it holds: for descriptors that hardware writes too.
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor>;

    /// Executes a barrier or a TLBI.
    fn maintain(&self, operation: Maintenance);

    /// Reads the descriptor at a slot of an even number, and the next. A platform that has an instruction for both gives it here.
    fn load_pair(&self, slot: Slot) -> [Descriptor; 2] {
        [self.load(slot), self.load(slot.after(1))]
    }

    /// Writes the descriptor at a slot of an even number, and the next, in any order.
    fn store_pair(&self, slot: Slot, [one, next]: [Descriptor; 2]) {
        self.store(slot, one);
        self.store(slot.after(1), next);
    }

    /// Returns when every walk of a [`crate::View`] that has begun by now has ended, on every CPU. The engine asks before it
    /// writes into a table that it has unlinked, for such a walk may still be in it. Stores made before are to be seen by every
    /// walk that begins after: it is a full barrier. It may be asked amid an apply, so that a view may not walk on a CPU that
    /// interrupted one there. Where no view walks beside a change there is nothing to wait for, as in what is given here.
    fn wait_for_views(&self) {}

    /// This machine for a run of loads or stores, between which nothing else is asked of it. A platform that reaches tables in more
    /// than one way, and asks with each access which it is, asks once by giving that way here: 512 descriptors are then written
    /// in 1,500 instructions instead of 5,700 (A64).
    fn for_run(&self) -> impl Platform + '_ {
        self
    }
}

impl<P: Platform> Platform for &P {
    fn load(&self, slot: Slot) -> Descriptor {
        (**self).load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        (**self).store(slot, descriptor)
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        (**self).exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        (**self).maintain(operation)
    }

    fn wait_for_views(&self) {
        (**self).wait_for_views()
    }

    #[inline(always)]
    fn for_run(&self) -> impl Platform + '_ {
        (**self).for_run()
    }
}
