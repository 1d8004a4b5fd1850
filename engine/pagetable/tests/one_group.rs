//! `map_group` does, step for step, what a plan of one change does, or nothing; so does `split_group`, of the plans that take no TLBI.

use crate::common;

use common::{DATA, GIB, Table, live, map, shape};
use vellum_pagetable::{Census, Change, El1, HardwareUpdates, Memory, Step, Tolerance};
use vellum_vmsa::{
    AddressHalf, BbmLevel, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, Maintenance, PhysAddr,
    Stage1Attributes, VirtAddr,
};

fn group_bytes<G: Granule>() -> u64 {
    LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE)
}

/// A page table with a page in a table of level 3, and the address where that table begins.
fn prepared<G: Granule>(memory: &Memory, layout: Layout) -> (Table<'_, G>, u64) {
    let start = 4 * G::SIZE_BYTES * G::ENTRIES as u64;
    let setup = map(start, G::SIZE_BYTES, 8 * start, LeafSize::PAGE);
    let table = live(memory, (42, layout), common::KERNEL, &[setup]);
    let _ = memory.take_steps();
    (table, start)
}

fn as_by_a_plan<G: Granule>(layout: Layout) {
    let bytes = group_bytes::<G>();
    for (number, to) in [(1, 0), (2, 64 * GIB), (G::ENTRIES as u64 * G::SIZE_BYTES / bytes - 1, 3 * bytes)] {
        let (memory, planned) = (Memory::default(), Memory::default());
        let (mut table, start) = prepared::<G>(&memory, layout);
        let at = start + number * bytes;
        assert!(table.is_group_empty(VirtAddr::new(at)));
        assert!(table.map_group(VirtAddr::new(at), PhysAddr::new(to), DATA));
        let (mut other, _) = prepared::<G>(&planned, layout);
        let steps = common::change(&mut other, &planned, &[map(at, bytes, to, LeafSize::LARGEST)], None).0;
        assert_eq!(memory.take_steps(), steps);
        assert_eq!(common::leaves(&table), common::leaves(&other));
        // The same where a view has found a hole: of whichever member.
        let found = Memory::default();
        let (mut third, _) = prepared::<G>(&found, layout);
        let hole = third.view().find_hole(VirtAddr::new(at + bytes - G::SIZE_BYTES)).expect("a hole");
        assert!(third.is_hole_of_group(hole) && third.map_hole_group(hole, PhysAddr::new(to), DATA));
        assert_eq!(found.take_steps(), steps);
        assert_eq!(common::leaves(&third), common::leaves(&other));
        assert!(!third.is_hole_of_group(hole) && !third.map_hole_group(hole, PhysAddr::new(to), DATA));
        assert!(
            !table.is_group_empty(VirtAddr::new(at)) && !table.map_group(VirtAddr::new(at), PhysAddr::new(to), DATA)
        );
    }
}

#[test]
fn a_group_is_mapped_as_by_a_plan() {
    as_by_a_plan::<Granule4K>(Layout::Bits48);
    as_by_a_plan::<Granule16K>(Layout::Bits48);
    as_by_a_plan::<Granule64K>(Layout::Bits48);
    as_by_a_plan::<Granule4K>(Layout::Lpa2);
}

#[test]
fn what_takes_more_than_its_members_takes_a_plan() {
    let memory = Memory::default();
    let (mut table, start) = prepared::<Granule4K>(&memory, Layout::Bits48);
    let bytes = group_bytes::<Granule4K>();
    let here = start + bytes;
    let before = memory.descriptors();
    let (end, wide) = (table.geometry().input_bytes(), 1 << table.geometry().layout().output_bits());
    let wrong = Stage1Attributes::from_bits_retain(1 << 20);
    let refused = [
        (here + 0x1000, GIB, DATA),
        (here + 0x10, GIB, DATA),
        (here + 1, GIB, DATA),
        (here, GIB + 1, DATA),
        (here, GIB + 0x10, DATA),
        (here, GIB + 0x1000, DATA),
        (here, wide, DATA),
        (here, GIB, wrong),
        (end, GIB, DATA),
        (here.wrapping_neg(), GIB, DATA),
        // A page is there; no table is there.
        (start, GIB, DATA),
        (2 * start, GIB, DATA),
    ];
    for (at, to, attributes) in refused {
        assert!(!table.map_group(VirtAddr::new(at), PhysAddr::new(to), attributes), "{at:#x} {to:#x}");
    }
    let hole = table.view().find_hole(VirtAddr::new(here)).expect("a hole");
    for (to, attributes) in [(GIB + 1, DATA), (GIB + 0x1000, DATA), (wide, DATA), (GIB, wrong)] {
        assert!(!table.map_hole_group(hole, PhysAddr::new(to), attributes), "{to:#x}");
    }
    assert!(memory.descriptors() == before && memory.take_steps().is_empty());
    let empty = [start, here, here + 0x1000, 2 * start, end].map(|at| table.is_group_empty(VirtAddr::new(at)));
    assert_eq!(empty, [false, true, false, true, false]);
    // A block, and a table of something below it.
    common::change(&mut table, &memory, &[map(2 * start, start / 4, 0, LeafSize::LARGEST)], None);
    assert!(
        !table.is_group_empty(VirtAddr::new(2 * start))
            && !table.map_group(VirtAddr::new(2 * start), PhysAddr::new(0), DATA)
    );
    for (bound, is_mapped) in [(LeafSize::single(Level::L2), false), (LeafSize::group(Level::L3), true)] {
        table = table.with_largest(bound);
        assert!(table.is_group_empty(VirtAddr::new(here)));
        assert!(is_mapped || !table.map_hole_group(hole, PhysAddr::new(GIB), DATA));
        assert_eq!(table.map_group(VirtAddr::new(here), PhysAddr::new(GIB), DATA), is_mapped);
    }
}

/// Any member may be in the way, be it the last, and be it kept.
#[test]
fn every_member_is_looked_at() {
    for member in 0..16 {
        let memory = Memory::default();
        let (mut table, start) = prepared::<Granule4K>(&memory, Layout::Bits48);
        let (at, bytes) = (start + group_bytes::<Granule4K>(), 0x1000);
        let page = at + member * bytes;
        assert!(table.map_page(VirtAddr::new(page), PhysAddr::new(GIB), DATA));
        assert!(table.make_page_valid(VirtAddr::new(page), false, None));
        let before = memory.descriptors();
        assert!(
            !table.is_group_empty(VirtAddr::new(at)) && !table.map_group(VirtAddr::new(at), PhysAddr::new(GIB), DATA)
        );
        let other = table.view().find_hole(VirtAddr::new(at + (member + 1) % 16 * bytes)).expect("a hole");
        assert!(!table.is_hole_of_group(other) && !table.map_hole_group(other, PhysAddr::new(GIB), DATA));
        assert!(memory.descriptors() == before);
    }
}

#[test]
fn the_upper_half_has_groups_too() {
    let memory = Memory::default();
    let geometry = shape::<Granule4K>(39, AddressHalf::Upper);
    let first = geometry.base();
    let page = Change::Map {
        from: VirtAddr::new(first)..VirtAddr::new(first + 0x1000),
        to: PhysAddr::new(0),
        attributes: DATA,
        largest: LeafSize::PAGE,
    };
    let mut table = common::live_at(&memory, geometry, common::KERNEL, &[page]);
    let group = VirtAddr::new(first + group_bytes::<Granule4K>());
    assert!(table.is_group_empty(group) && !table.is_group_empty(VirtAddr::new(first)));
    assert!(table.map_group(group, PhysAddr::new(GIB), DATA) && !table.is_group_empty(group));
}

/// What nobody walks yet needs no barrier.
#[test]
fn an_offline_group_is_stored_alone() {
    let memory = Memory::default();
    let mut table = common::offline::<Granule4K>(&memory, 39, Layout::Bits48);
    common::change(&mut table, &memory, &[map(0, 0x1000, GIB, LeafSize::PAGE)], None);
    assert!(table.map_group(VirtAddr::new(0x1_0000), PhysAddr::new(GIB), DATA));
    assert_eq!(memory.take_steps().len(), 16);
}

/// A page table whose first table of pages holds groups and then pages.
fn grouped(memory: &Memory, regime: El1) -> Table<'_, Granule4K> {
    let pages = map(1 << 20, 4 << 12, 2 * GIB, LeafSize::PAGE);
    let block = map(2 << 20, 2 << 20, 4 * GIB, LeafSize::single(Level::L2));
    let table = live(memory, (39, Layout::Bits48), regime, &[map(0, 2 << 16, GIB, LeafSize::LARGEST), pages, block]);
    let _ = memory.take_steps();
    table
}

/// The pages of a group become single by the steps of a plan: whoever changes one of them next may be another CPU, whose DSB is not for them.
#[test]
fn a_group_is_split_as_by_a_plan_where_that_takes_no_tlbi() {
    let mut split = Vec::new();
    common::each_licence(|licence| {
        for at in [0, 0x1000, 0xf000, 0x1_5008] {
            let (memory, planned) = (Memory::default(), Memory::default());
            let mut table = grouped(&memory, common::KERNEL);
            let before = memory.descriptors();
            let is_split = table.split_group(VirtAddr::new(at), licence);
            split.push(is_split);
            if !is_split {
                assert!(memory.take_steps().is_empty() && memory.descriptors() == before);
                continue;
            }
            let mut other = grouped(&planned, common::KERNEL);
            let from = VirtAddr::new(at & !0xfff)..VirtAddr::new((at & !0xfff) + 0x1000);
            let steps = common::change(&mut other, &planned, &[Change::SplitToPages { from }], Some(licence)).0;
            assert!(steps.contains(&Step::Maintain(Maintenance::DSB_ISHST)));
            assert_eq!((memory.take_steps(), memory.descriptors()), (steps, planned.descriptors()));
        }
    });
    assert_eq!(split, [[false; 4], [false; 4], [false; 4], [true; 4]].concat(), "level 3 alone");
}

#[test]
fn what_is_no_group_that_may_end_in_place_is_not_split() {
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    let licence = census.tolerated().expect("level 3");
    let marked = El1 { hardware_updates: HardwareUpdates::AccessFlag, ..common::KERNEL };
    // Pages, a hole, a block, another half; and where hardware marks members, which then have to be told of each other.
    let places = [(1 << 20, common::KERNEL), (1 << 16 << 2, common::KERNEL), (2 << 20, common::KERNEL)];
    for (at, regime) in places.into_iter().chain([(1 << 39, common::KERNEL), (u64::MAX, common::KERNEL), (0, marked)]) {
        let memory = Memory::default();
        let mut table = grouped(&memory, regime);
        assert!(!table.split_group(VirtAddr::new(at), &licence), "{at:#x}");
        assert!(memory.take_steps().is_empty());
    }
}
