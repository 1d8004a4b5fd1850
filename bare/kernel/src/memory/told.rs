//! The machine as address spaces of programs reach it: what TLBs are told is counted, by kind.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::platform::Hardware;
use pagetable::{Platform, Slot};
use vmsa::{Descriptor, Maintenance, maintenance::TlbiOperand};

/// TLBIs by address, by range, of a whole space.
static TOLD: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// TLBIs by address, by range, of a whole space: all that changes of programs' memory took.
pub(crate) fn counts() -> [u64; 3] {
    TOLD.each_ref().map(|count| count.load(Ordering::Relaxed))
}

/// The machine, with TLBIs counted.
#[derive(Clone)]
pub(crate) struct Told(pub(crate) Hardware);

impl Platform for Told {
    #[inline(always)]
    fn load(&self, slot: Slot) -> Descriptor {
        self.0.load(slot)
    }

    #[inline(always)]
    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.0.store(slot, descriptor);
    }

    #[inline(always)]
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.0.exchange(slot, old, new)
    }

    #[inline(always)]
    fn maintain(&self, operation: Maintenance) {
        if let Maintenance::Invalidate(tlbi, _) = operation {
            let kind = match tlbi.operand() {
                TlbiOperand::Address | TlbiOperand::AddressAnyAsid => 0,
                operand if operand.is_range() => 1,
                _ => 2,
            };
            TOLD[kind].fetch_add(1, Ordering::Relaxed);
        }
        self.0.maintain(operation);
    }

    #[inline(always)]
    fn for_run(&self) -> impl Platform + '_ {
        self.0
    }
}
