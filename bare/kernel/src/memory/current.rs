//! The page tables that this CPU walks.

use hardware::platform::Hardware;
use pagetable::{El1, Scope, TlbFeatures};
use vmsa::AddressHalf;

use crate::facts::facts;
use crate::memory::tables::{AnyTable, CAUTIOUS};
use crate::memory::window;

/// The upper half, to read.
pub(crate) fn upper() -> AnyTable {
    of(AddressHalf::Upper, CAUTIOUS)
}

/// The upper half, to change, where TLB maintenance can do so much.
pub(crate) fn upper_with(tlb: TlbFeatures) -> AnyTable {
    of(AddressHalf::Upper, El1 { tlb, ..CAUTIOUS })
}

/// The lower half, to read.
pub(crate) fn lower() -> AnyTable {
    of(AddressHalf::Lower, CAUTIOUS)
}

/// The workshop, to change.
pub(crate) fn workshop_with(tlb: TlbFeatures) -> AnyTable {
    let regime = El1 { scope: Scope::Asid(window::ASID), tlb, ..CAUTIOUS };
    of(AddressHalf::Lower, regime).rooted(facts().workshop.root)
}

fn of(half: AddressHalf, regime: El1) -> AnyTable {
    let offset = facts().linear.offset();
    // SAFETY: every table comes from RAM, which the linear map holds writable; editing is for who holds the map's lock; and
    // what is changed is stacks of CPUs that do not run yet and the self-checks' own range, which no reference leads
    // to.
    let hardware = unsafe { Hardware::new(offset) };
    AnyTable::read_current(hardware, half, regime).expect("this CPU runs by what `Shape` encoded")
}
