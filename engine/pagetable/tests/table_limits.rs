//! Tables with limits of their own, which others wrote.

use crate::common;

use common::{MIB, change, live_4k, map};
use vellum_pagetable::{Census, Change, Memory, Platform, Tolerance};
use vellum_vmsa::{BbmLevel, Descriptor, LeafSize, Level, Stage1Attributes, TableAttributes, VirtAddr};

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// What a table descriptor forbids below it stays forbidden.
#[test]
fn folding_a_table_grants_nothing() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 2 * MIB, 0x8_0000_0000, LeafSize::PAGE)]);
    let slot = table.view().path(VirtAddr::new(0)).find(|lookup| lookup.level == Level::L2).unwrap().slot;
    let limits = TableAttributes::READ_ONLY | TableAttributes::PXN;
    memory.store(slot, Descriptor::new(memory.load(slot).bits() | limits.bits()));
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    let _ = change(&mut table, &memory, &[Change::Collapse { from: range(0, 2 * MIB) }], census.tolerated().as_ref());
    let now = memory.load(slot);
    let is_limited = if now.is_table(Level::L2) {
        now.bits() & limits.bits() == limits.bits()
    } else {
        now.bits() & Stage1Attributes::READ_ONLY.bits() != 0
    };
    assert!(is_limited, "read-only by its table before, and {now:?} now");
}
