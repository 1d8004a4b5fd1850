//! A small root that others wrote, with the Contiguous bit in it.

mod common;

use common::{DATA, GIB, PLAIN_KERNEL};
use pagetable::{Change, Licence, Memory, PageTable, Platform, Reserve, Slot};
use vmsa::{AddressHalf, Descriptor, Geometry, Granule4K, Layout, Level, PhysAddr, Stage1Attributes, VirtAddr};

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// A root of four descriptors, one of which has the Contiguous bit: its group would have sixteen.
#[test]
fn a_group_that_the_root_has_no_room_for_stays_in_the_root() {
    let memory = Memory::new();
    let geometry = Geometry::<Granule4K>::new(32, Layout::Bits48, AddressHalf::Lower).unwrap();
    let root = PhysAddr::new(0x7000_0000);
    for index in 0..16 {
        memory.store(Slot::new(root, index), Descriptor::new(0x1234_0000 + index as u64));
    }
    for index in 0..geometry.root_entries() {
        let to = PhysAddr::new(0x40_0000_0000 + index as u64 * GIB);
        let leaf = Descriptor::leaf(Layout::Bits48, Level::L1, to, DATA.bits() | Descriptor::CONTIGUOUS);
        memory.store(Slot::new(root, index), leaf);
    }
    let mut table = PageTable::live(&memory, geometry, PLAIN_KERNEL, root);
    let protect =
        Change::Protect { from: range(0, GIB), set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty() };
    let before = memory.descriptors();
    let licence = Licence::break_before_make(&());
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 4);
    if let Ok(plan) = table.plan(&[protect], Some(&licence)) {
        let mut gather = plan.gather();
        plan.with(&mut reserve).unwrap().apply(&mut gather);
        let _ = gather.finish(&memory);
    }
    for index in geometry.root_entries()..16 {
        let slot = Slot::new(root, index);
        assert_eq!(
            memory.load(slot),
            before[&slot],
            "descriptor {index} is no part of a root of {}",
            geometry.root_entries()
        );
    }
}
