//! What was done, in numbers.

use core::cell::Cell;

use pagetable::{Platform, Slot};
use vmsa::maintenance::TlbiOperand;
use vmsa::{Barrier, Descriptor, Maintenance};

use crate::refused::Refused;
use crate::wanted::Wanted;

/// Barriers and TLBIs that were executed, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Operations {
    /// TLBIs by address.
    pub tlbi_address: u64,
    /// TLBIs by range.
    pub tlbi_range: u64,
    /// TLBIs of everything.
    pub tlbi_everything: u64,
    /// DSBs for stores (ISHST).
    pub dsb_stores: u64,
    /// DSBs that complete TLBIs (ISH).
    pub dsb_all: u64,
    /// ISBs.
    pub isb: u64,
}

/// Kinds of operations.
const KINDS: usize = 6;

impl Operations {
    /// The fields, in the order of [`kind`].
    const fn each(&mut self) -> [&mut u64; KINDS] {
        [
            &mut self.tlbi_address,
            &mut self.tlbi_range,
            &mut self.tlbi_everything,
            &mut self.dsb_stores,
            &mut self.dsb_all,
            &mut self.isb,
        ]
    }
}

/// Which of the fields counts an operation.
#[inline(always)]
fn kind(operation: Maintenance) -> usize {
    match operation {
        Maintenance::Invalidate(operation, _) => match operation.operand() {
            TlbiOperand::Address | TlbiOperand::AddressAnyAsid => 0,
            operand if operand.is_range() => 1,
            _ => 2,
        },
        Maintenance::DSB_ISHST => 3,
        Maintenance::Barrier(Barrier::Isb) => 5,
        Maintenance::Barrier(_) => 4,
    }
}

/// What became of the map since boot. Its fields stand in memory in this order, for who reads it from outside.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Counters {
    /// Changes that were made; of one list, one.
    pub changes: u64,
    /// Those of them that were made in atomic context.
    pub atomic: u64,
    /// Tables that took the place of a leaf of the map, or of a hole.
    pub splits: u64,
    /// Tables whose place a leaf of the map took, or a hole.
    pub folds: u64,
    /// Changes that were made in a window.
    pub windows: u64,
    /// Changes for which CPUs were parked.
    pub parked: u64,
    /// Changes that were refused because the reserve was dry.
    pub reserve_dry: u64,
    /// Changes that were refused because there was no memory for tables.
    pub out_of_tables: u64,
    /// Changes, and calls of [`crate::LinearMap::heal`], that were refused because a CPU could not be parked.
    pub not_parked: u64,
    /// Changes that were refused for what they asked.
    pub refused: u64,
    /// Barriers and TLBIs, those of painting not among them.
    pub operations: Operations,
    /// Tables in the reserve for atomic context, as it is now.
    pub reserve: u64,
    /// Bytes that were added.
    pub added: u64,
    /// Bytes that were removed.
    pub removed: u64,
}

impl Counters {
    /// A change was refused.
    pub(crate) fn note(&mut self, why: Refused) {
        let counter = match why {
            Refused::ReserveDry(_) => &mut self.reserve_dry,
            Refused::OutOfTables(_) => &mut self.out_of_tables,
            Refused::NotParked(_) => &mut self.not_parked,
            Refused::Change(_) => &mut self.refused,
        };
        *counter += 1;
    }

    /// So many bytes became what is wanted.
    pub(crate) const fn note_moved(&mut self, wanted: Wanted, bytes: u64) {
        match wanted {
            Wanted::Present { .. } => self.added += bytes,
            Wanted::Absent => self.removed += bytes,
            _ => {}
        }
    }

    /// Operations were executed.
    #[inline]
    pub(crate) fn add<P: Platform>(&mut self, counted: &Counted<'_, P>) {
        for (total, count) in self.operations.each().into_iter().zip(&counted.counts) {
            *total += count.get();
        }
    }
}

/// A platform whose barriers and TLBIs are counted.
pub(crate) struct Counted<'p, P: Platform> {
    platform: &'p P,
    /// By [`kind`].
    counts: [Cell<u64>; KINDS],
}

impl<'p, P: Platform> Counted<'p, P> {
    pub(crate) fn new(platform: &'p P) -> Self {
        Self { platform, counts: Default::default() }
    }
}

impl<P: Platform> Platform for Counted<'_, P> {
    // Whoever hears of each operation, hears who asked for it.
    #[track_caller]
    #[inline(always)]
    fn load(&self, slot: Slot) -> Descriptor {
        self.platform.load(slot)
    }

    #[track_caller]
    #[inline(always)]
    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.platform.store(slot, descriptor);
    }

    #[track_caller]
    #[inline(always)]
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.platform.exchange(slot, old, new)
    }

    #[track_caller]
    #[inline(always)]
    fn maintain(&self, operation: Maintenance) {
        let count = &self.counts[kind(operation)];
        count.set(count.get() + 1);
        self.platform.maintain(operation);
    }

    fn wait_for_views(&self) {
        self.platform.wait_for_views();
    }

    #[inline(always)]
    fn for_run(&self) -> impl Platform + '_ {
        self.platform.for_run()
    }
}
