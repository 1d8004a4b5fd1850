//! The platform of one address space: what it tells TLBs to forget, it tells of the ASID that the space has at that moment.
//!
//! ```text
//!   stores of descriptors ──▶ DSB ISHST ──▶ the ASID is read ──▶ TLBI
//! ```
//! A rollover may give the space another ASID at any time. If that comes before the ASID is read, the TLBI is about the new one; if it
//! comes after, walks under the new one find what was stored. Read before the stores, the ASID could be the old one, while walks
//! under the new one have found what was there before.

use pagetable::{Platform, Slot};
use vmsa::maintenance::operand_by_asid;
use vmsa::{Descriptor, Maintenance, TlbiOp};

use crate::context::Context;

/// The platform of one address space.
pub(crate) struct Current<'a, P> {
    platform: &'a P,
    context: &'a Context,
}

impl<'a, P: Platform> Current<'a, P> {
    pub(crate) const fn new(platform: &'a P, context: &'a Context) -> Self {
        Self { platform, context }
    }

    #[inline(never)]
    fn invalidate(&self, tlbi: TlbiOp, operand: u64) {
        // Of a regime whose ASID is 0 ([`crate::Shape`]) the operand has none.
        let operand = operand | operand_by_asid(self.context.asid());
        self.platform.maintain(Maintenance::Invalidate(tlbi, operand));
    }
}

impl<P: Platform> Platform for Current<'_, P> {
    #[inline(always)]
    fn load(&self, slot: Slot) -> Descriptor {
        self.platform.load(slot)
    }

    #[inline(always)]
    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.platform.store(slot, descriptor);
    }

    #[inline(always)]
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.platform.exchange(slot, old, new)
    }

    // A barrier is one instruction wherever it is asked for; the TLBIs stand in one place.
    #[inline(always)]
    fn maintain(&self, operation: Maintenance) {
        match operation {
            Maintenance::Invalidate(tlbi, operand) => self.invalidate(tlbi, operand),
            Maintenance::Barrier(_) => self.platform.maintain(operation),
        }
    }

    fn wait_for_views(&self) {
        self.platform.wait_for_views();
    }

    #[inline(always)]
    fn for_run(&self) -> impl Platform + '_ {
        self.platform.for_run()
    }
}
