//! Neighbours of which one is unlike the others, boundaries that cut two, and what others put among them.

use crate::common;

use std::cell::Cell;

use common::{DATA, KERNEL, MIB, change, leaves, live, live_4k, map, offline, read_only, unmap};
use vellum_pagetable::{
    Census, Change, El1, HardwareUpdates, Licence, Memory, Platform, Refusal, Reserve, Slot, Step, Tolerance,
};
use vellum_vmsa::{
    BbmLevel, Descriptor, Granule4K, Layout, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes, VirtAddr,
};

const PAGE: u64 = 0x1000;
const BLOCK: LeafSize = LeafSize::single(Level::L2);
const NONE: Stage1Attributes = Stage1Attributes::empty();

fn range(start: u64, bytes: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(start)..VirtAddr::new(start + bytes)
}

fn slot_of(table: &common::Table<'_, Granule4K>, at: u64) -> (Slot, Descriptor) {
    let end = table.view().path(VirtAddr::new(at)).last().unwrap();
    (end.slot, end.descriptor)
}

/// A whole group's worth of leaves from 0, of which number 3 leads to `to` with other attributes.
fn all_but_one(
    size: u64,
    leaf: LeafSize,
    attributes: Stage1Attributes,
    (to, other): (u64, Stage1Attributes),
) -> [Change<El1>; 3] {
    let map = |at: u64, count: u64, to, attributes| Change::Map {
        from: range(at * size, count * size),
        to: PhysAddr::new(to),
        attributes,
        largest: leaf,
    };
    [map(0, 3, 1 << 36, attributes), map(3, 1, to, other), map(4, 28, 1 << 37, attributes)]
}

/// Of a run one leaf would change its memory type: that leaf alone needs a break, and the others are not broken.
#[test]
fn a_neighbour_that_may_not_change_in_place_is_no_part_of_the_run() {
    let (device, memory) = (Stage1Attributes::memory(1), Memory::new());
    let setup = all_but_one(PAGE, LeafSize::PAGE, DATA.union(device), (1 << 38, DATA));
    let mut table = live_4k(&memory, &setup);
    let wanted =
        [Change::Protect { from: range(0, 32 * PAGE), set: device | Stage1Attributes::READ_ONLY, clear: NONE }];
    let slot = slot_of(&table, 3 * PAGE).0;
    assert_eq!(table.plan(&wanted, None).unwrap_err(), Refusal::NeedsLicence(3 * PAGE));
    let licence = Licence::break_before_make(&());
    let (steps, _) = change(&mut table, &memory, &wanted, Some(&licence));
    let is_broken = |step: &&Step| matches!(step, Step::Store(_, leaf) if !leaf.is_valid());
    let broken: Vec<_> =
        steps.iter().filter(is_broken).map(|step| if let Step::Store(at, _) = step { *at } else { slot }).collect();
    assert_eq!(broken, [slot]);
    assert!(leaves(&table).iter().all(|(.., leaf)| leaf.bits() & (1 << 2 | 1 << 7) == 1 << 2 | 1 << 7));
}

/// Of a run one leaf could not be told from a hole.
#[test]
fn a_neighbour_that_may_not_be_kept_is_no_part_of_the_run() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &all_but_one(2 * MIB, BLOCK, NONE, (0, NONE)));
    let refused = table.plan(&[Change::MakeInvalid { from: range(0, 64 * MIB) }], None).unwrap_err();
    assert_eq!(refused, Refusal::NotKeepable(6 * MIB));
}

/// A range that ends amid two members of one group of blocks, be they neighbours or not.
#[test]
fn both_members_that_are_cut_become_tables() {
    for (start, bytes, tables) in
        [(MIB, 2 * MIB, 2), (MIB, 6 * MIB, 2), (MIB, 3 * MIB, 1), (2 * MIB, 3 * MIB, 1), (3 * MIB, PAGE, 1)]
    {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 32 * MIB, 1 << 36, LeafSize::group(Level::L2))]);
        let licence = Licence::break_before_make(&());
        let wanted = [read_only(start, bytes)];
        assert_eq!(table.plan(&wanted, Some(&licence)).unwrap().tables_needed(), tables);
        change(&mut table, &memory, &wanted, Some(&licence));
        for (at, size, leaf) in leaves(&table) {
            let is_asked_for = start <= at && at + size <= start + bytes;
            assert_eq!(leaf.bits() & 1 << 7 != 0, is_asked_for, "{at:#x} of {start:#x}+{bytes:#x}");
        }
    }
}

/// Bit 52 of a table's descriptor is nobody's: it makes no group of what stands around it.
#[test]
fn a_table_with_the_bit_of_groups_is_a_table() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(6 * MIB, 2 * MIB, 1 << 36, LeafSize::PAGE)]);
    let lookup = table.view().path(VirtAddr::new(6 * MIB)).nth(1).unwrap();
    memory.store(lookup.slot, Descriptor::new(lookup.descriptor.bits() | Descriptor::CONTIGUOUS));
    let (from, licence) = (range(0, 32 * MIB), Licence::break_before_make(&()));
    let wanted = [Change::Remap { from, to: PhysAddr::new(1 << 37), attributes: DATA, largest: BLOCK }];
    let (_, retired) = change(&mut table, &memory, &wanted, Some(&licence));
    assert_eq!(retired, 1);
    let outputs =
        leaves(&table).iter().map(|(at, bytes, leaf)| (*at, *bytes, leaf.bits() >> 12 << 12)).collect::<Vec<_>>();
    let expected = (0..16).map(|number| (number * 2 * MIB, 2 * MIB, (1 << 37) + number * 2 * MIB)).collect::<Vec<_>>();
    assert_eq!(outputs.iter().map(|it| (it.0, it.1, it.2 & !(1 << 54 | 1 << 53))).collect::<Vec<_>>(), expected);
}

/// What is mapped as asked, but in leaves larger than asked, is mapped anew.
#[test]
fn a_remap_makes_no_exception_of_its_bound() {
    let memory = Memory::new();
    for largest in [LeafSize::PAGE, LeafSize::group(Level::L3)] {
        let mut table = offline::<Granule4K>(&memory, 39, Layout::Bits48);
        change(&mut table, &memory, &[map(0, 2 * MIB, 1 << 36, BLOCK)], None);
        let wanted = Change::Remap { from: range(0, 2 * MIB), to: PhysAddr::new(1 << 36), attributes: DATA, largest };
        change(&mut table, &memory, &[wanted], None);
        let leaves = leaves(&table);
        assert!(leaves.len() == 512 && leaves.iter().all(|(.., leaf)| leaf.is_contiguous() == largest.contiguous));
    }
}

/// The table that takes the place of a leaf larger than the bound holds nothing beyond the bound.
#[test]
fn what_is_left_of_a_leaf_keeps_to_the_bound() {
    for (largest, size) in [(LeafSize::PAGE, PAGE), (BLOCK, 2 * MIB)] {
        let memory = Memory::new();
        let mut table = offline::<Granule4K>(&memory, 39, Layout::Bits48);
        change(&mut table, &memory, &[map(0, 1 << 30, 1 << 36, LeafSize::single(Level::L1))], None);
        let mut table = table.with_largest(largest);
        change(&mut table, &memory, &[read_only(4 * MIB, 2 * MIB)], None);
        let leaves = leaves(&table);
        assert_eq!(leaves.len() as u64, (1 << 30) / size);
        assert!(leaves.iter().all(|(at, bytes, leaf)| {
            *bytes == size && !leaf.is_contiguous() && (leaf.bits() & 1 << 7 != 0) == (4 * MIB..6 * MIB).contains(at)
        }));
    }
}

/// What is not valid and no leaf either is stored over, and walkers see that, though no TLB has anything to forget.
#[test]
fn what_nobody_knows_is_cleared_in_order() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, PAGE, 1 << 36, LeafSize::PAGE)]);
    let slot = slot_of(&table, 5 * PAGE).0;
    memory.store(slot, Descriptor::new(1 << 60));
    let (steps, _) = change(&mut table, &memory, &[unmap(5 * PAGE, PAGE)], None);
    let barriers = [Maintenance::DSB_ISHST, Maintenance::ISB].map(Step::Maintain);
    assert_eq!(steps, [vec![Step::Store(slot, Descriptor::INVALID)], barriers.to_vec()].concat());
}

/// A platform on which hardware marks one leaf at the first barrier: after the table above was broken, before TLBs forget.
struct Marking<'m>(&'m Memory, Cell<Option<Slot>>);

impl Platform for Marking<'_> {
    fn load(&self, slot: Slot) -> Descriptor {
        self.0.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.0.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.0.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        if let Some(slot) = self.1.take() {
            self.0.store(slot, Descriptor::new(self.0.load(slot).bits() & !(1 << 7) | 1 << 10));
        }
        self.0.maintain(operation);
    }
}

/// A walk that is under way writes into the table until TLBs have forgotten it: the block says so too.
#[test]
fn what_hardware_writes_into_a_broken_table_is_folded_in() {
    let (memory, regime) = (Memory::new(), El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL });
    for page in [0, 9, 511] {
        let attributes = Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
        let (from, to) = (range(0, 2 * MIB), PhysAddr::new(1 << 36));
        let setup = [Change::Map { from: from.clone(), to, attributes, largest: LeafSize::PAGE }];
        let table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
        let marking = Marking(&memory, Cell::new(Some(slot_of(&table, page * PAGE).0)));
        let mut table = table.over(&marking);
        let (mut reserve, mut gather, wanted) = (Reserve::new(), table.gather(), [Change::Collapse { from }]);
        let licence = Licence::break_before_make(&());
        table.plan(&wanted, Some(&licence)).unwrap().apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(&marking);
        let block = table.view().translate(VirtAddr::new(0)).unwrap();
        assert_eq!((block.size, block.descriptor.bits() & (1 << 7 | 1 << 10)), (BLOCK, 1 << 10), "page {page}");
    }
}

/// Others have put a larger leaf there since the plan: the change takes more tables than there are, and keeps none.
#[test]
fn a_table_that_cannot_be_finished_is_not_begun() {
    let memory = Memory::new();
    let mut table = offline::<Granule4K>(&memory, 39, Layout::Bits48);
    change(&mut table, &memory, &[map(0, 4 * MIB, 1 << 36, BLOCK)], None);
    let lookup = table.view().path(VirtAddr::new(0)).next().unwrap();
    let (mut reserve, mut gather, wanted) = (Reserve::new(), table.gather(), [read_only(MIB, 3 * MIB)]);
    let mut plan = table.plan(&wanted, None).unwrap();
    assert_eq!(plan.tables_needed(), 1);
    memory.supply::<Granule4K>(&mut reserve, 1);
    let large = Descriptor::leaf(Layout::Bits48, Level::L1, PhysAddr::new(1 << 36), DATA.bits());
    memory.store(lookup.slot, large);
    plan.apply(&mut reserve, &mut gather).unwrap();
    assert_eq!((reserve.count(), memory.load(lookup.slot)), (1, large));
}

/// In one gather a boundary is where it is, and no page further.
#[test]
fn a_boundary_is_no_page_wide() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 8 * PAGE, 1 << 36, LeafSize::PAGE)]);
    let split = |page: u64| Change::<El1>::Split { at: VirtAddr::new(page * PAGE) };
    assert!(table.plan(&[split(2), read_only(3 * PAGE, PAGE)], None).is_ok());
    assert!(table.plan(&[read_only(3 * PAGE, PAGE), split(2)], None).is_ok());
    assert_eq!(table.plan(&[split(2), read_only(2 * PAGE, PAGE)], None).unwrap_err(), Refusal::Overlap(2 * PAGE));
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    for (wanted, issued) in [(read_only(3 * PAGE, PAGE), 0), (split(2), 0), (split(3), 1)] {
        table.plan(&[wanted], None).unwrap().apply(&mut reserve, &mut gather).unwrap();
        assert_eq!(gather.issued(), issued);
    }
    let _ = gather.finish(&memory);
}

/// A boundary amid a block of 1 GiB that no group may hold: blocks and pages up to it, and from it on.
#[test]
fn a_boundary_deep_in_a_block_is_one() {
    for (at, leaf_count) in [(5 * PAGE, 511 + 512), (MIB, 511 + 512), (4 * MIB, 512)] {
        let memory = Memory::new();
        let table = offline::<Granule4K>(&memory, 39, Layout::Bits48);
        let mut table = table.with_largest(LeafSize::single(Level::L1));
        change(&mut table, &memory, &[map(0, 1 << 30, 1 << 36, LeafSize::LARGEST)], None);
        change(&mut table, &memory, &[Change::Split { at: VirtAddr::new(at) }], None);
        let leaves = leaves(&table);
        assert!(leaves.iter().any(|leaf| leaf.0 == at) && leaves.len() == leaf_count, "{at:#x}: {}", leaves.len());
    }
}

/// Pages amid a block of 1 GiB, where blocks may stand but no groups.
#[test]
fn pages_deep_in_a_block_are_all_that_is_asked_for() {
    let memory = Memory::new();
    let mut table = offline::<Granule4K>(&memory, 39, Layout::Bits48).with_largest(LeafSize::single(Level::L1));
    change(&mut table, &memory, &[map(0, 1 << 30, 1 << 36, LeafSize::LARGEST)], None);
    change(&mut table, &memory, &[Change::SplitToPages { from: range(4 * MIB, 4 * MIB) }], None);
    let is_page = |at: u64| (4 * MIB..8 * MIB).contains(&at);
    let leaves = leaves(&table);
    assert!(leaves.iter().all(|(at, bytes, _)| *bytes == if is_page(*at) { PAGE } else { 2 * MIB }));
    assert_eq!(leaves.len(), 510 + 1024);
}

/// Of a group that nobody has accessed or written the bit is all that changes when it dissolves.
#[test]
fn a_group_without_marks_is_given_none() {
    let (memory, regime) = (Memory::new(), El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL });
    let attributes = Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    let (from, largest) = (range(0, 16 * PAGE), LeafSize::group(Level::L3));
    let setup = [Change::Map { from, to: PhysAddr::new(1 << 36), attributes, largest }];
    let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
    let census = Census::new(Tolerance::new(BbmLevel::Level3, true));
    let licence = census.tolerated().unwrap();
    let wanted = [Change::Split { at: VirtAddr::new(8 * PAGE) }];
    let (steps, _) = change(&mut table, &memory, &wanted, Some(&licence));
    let changed = |step: &Step| match step {
        Step::Exchange { expected, new, .. } => Some(expected.bits() ^ new.bits()),
        _ => None,
    };
    assert_eq!(steps.iter().filter_map(changed).collect::<Vec<_>>(), [Descriptor::CONTIGUOUS; 16]);
}
