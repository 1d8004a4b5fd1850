//! A contiguous group that others left with a hole.

use crate::common;

use common::{MIB, change, live_4k, map};
use vellum_pagetable::{Change, Licence, Memory, Platform};
use vellum_vmsa::{Descriptor, LeafSize, Stage1Attributes, VirtAddr};

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// A contiguous group of blocks with a hole in it is not misprogrammed (IPGVGZ).
#[test]
fn a_hole_in_a_group_stays_a_hole() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 32 * MIB, 0x8_0000_0000, LeafSize::LARGEST)]);
    let hole = table.view().path(VirtAddr::new(5 * 2 * MIB)).last().unwrap().slot;
    memory.store(hole, Descriptor::INVALID);
    let protect =
        Change::Protect { from: range(0, 2 * MIB), set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty() };
    let _ = change(&mut table, &memory, &[protect], Some(&Licence::break_before_make(&())));
    assert_eq!(table.view().translate(VirtAddr::new(5 * 2 * MIB)), None);
}
