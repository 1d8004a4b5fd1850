//! What is refused, by which address, and what is not: holes, parts of groups, ends that are not of pages, tables that are too
//! wide, kept leaves of which nothing would be left. What is kept changes as what is mapped does.

use crate::common;

use common::{DATA, GIB, KERNEL, MIB, change, leaves, live, live_4k, map, read_only, shape, tables_above, unmap};
use vellum_pagetable::{Change, El1, HardwareUpdates, Memory, PageTable, Platform, Refusal, Reserve};
use vellum_vmsa::{AddressHalf, Descriptor, Granule4K, Layout, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

const PAGE: u64 = 0x1000;

fn range(from: u64, bytes: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// An empty range is within no other.
#[test]
fn an_empty_change_overlaps_nothing() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 8 * PAGE, GIB, LeafSize::PAGE)]);
    assert!(table.plan(&[read_only(0, 4 * PAGE), unmap(2 * PAGE, 0)], None).is_ok());
    assert!(table.plan(&[unmap(2 * PAGE, 0), read_only(0, 4 * PAGE)], None).is_ok());
    let both = [read_only(0, 4 * PAGE), unmap(3 * PAGE, 2 * PAGE)];
    assert_eq!(table.plan(&both, None).map(drop), Err(Refusal::Overlap(3 * PAGE)));
}

/// What goes wholly needs no licence; a group that goes in part does, wherever the part begins and ends.
#[test]
fn part_of_a_group_does_not_go_without_a_licence() {
    for (first, count, is_refused) in
        [(0, 2, true), (5, 43, true), (15, 2, true), (16, 20, true), (47, 1, true), (0, 48, false), (16, 16, false)]
    {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 48 * PAGE, GIB, LeafSize::LARGEST)]);
        let refusal = table.plan(&[unmap(first * PAGE, count * PAGE)], None).map(drop);
        assert_eq!(
            matches!(refusal, Err(Refusal::NeedsLicence(_))),
            is_refused,
            "{count} pages from {first}: {refusal:?}"
        );
        assert_eq!(refusal.is_ok(), !is_refused);
    }
}

/// A reserve may have tables that no TTBR can hold, if another comes first.
#[test]
fn one_table_that_fits_is_enough_for_a_root() {
    let (memory, mut reserve) = (Memory::new(), Reserve::new());
    reserve.add(&memory, PhysAddr::new(1 << 52));
    let geometry = shape::<Granule4K>(39, AddressHalf::Lower);
    let refused = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).map(|table| table.root());
    assert_eq!(refused, Err(Refusal::OutputTooWide(PhysAddr::new(1 << 52))));
    reserve.add(&memory, PhysAddr::new(1 << 40));
    let root = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).map(|table| table.root());
    assert_eq!(root, Ok(PhysAddr::new(1 << 40)));
}

/// Each kind of change that is about what is mapped refuses a hole, wherever that is; the others pass.
#[test]
fn holes_are_refused_where_something_must_be_mapped() {
    let none = Stage1Attributes::empty();
    for hole in [0, 1, 6, 7] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 8 * PAGE, GIB, LeafSize::PAGE)]);
        change(&mut table, &memory, &[unmap(hole * PAGE, PAGE)], None);
        let from = || range(0, 8 * PAGE);
        let refusing = [
            Change::Protect { from: from(), set: Stage1Attributes::READ_ONLY, clear: none },
            Change::MakeInvalid { from: from() },
            Change::MakeValid { from: from() },
            Change::UnmapMapped { from: from() },
        ];
        for wish in refusing {
            let refusal = table.plan(std::slice::from_ref(&wish), None).map(drop);
            assert_eq!(refusal, Err(Refusal::NotMapped(hole * PAGE)), "{wish:?}");
        }
        let passing = [
            Change::Unmap { from: from() },
            Change::Age { from: from() },
            Change::Clean { from: from() },
            Change::SplitToPages { from: from() },
            Change::Collapse { from: from() },
        ];
        passing.iter().for_each(|wish| assert!(table.plan(std::slice::from_ref(wish), None).is_ok(), "{wish:?}"));
    }
}

/// What is no multiple of a page is refused by its address: the start first.
#[test]
fn ranges_are_of_whole_pages() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[]);
    for (start, end, found) in [
        (1, PAGE, 1),
        (0, 1, 1),
        (0, PAGE + 1, PAGE + 1),
        (7, 9, 7),
        (2048, PAGE, 2048),
        (0, 2 * PAGE - 1, 2 * PAGE - 1),
    ] {
        let wish = Change::Unmap { from: VirtAddr::new(start)..VirtAddr::new(end) };
        assert_eq!(table.plan(&[wish], None).map(drop), Err(Refusal::Misaligned(found)), "{start}..{end}");
    }
}

/// What is kept changes as what is mapped does, and is shown as it is then: marks of other members are not its own.
#[test]
fn what_is_kept_is_protected_too() {
    let dirty = HardwareUpdates::DirtyState;
    for (hardware_updates, largest) in
        [(HardwareUpdates::None, LeafSize::PAGE), (dirty, LeafSize::PAGE), (dirty, LeafSize::LARGEST)]
    {
        let memory = Memory::new();
        let regime = El1 { hardware_updates, ..KERNEL };
        let attributes = DATA.difference(Stage1Attributes::AF) | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
        let from = range(0, 16 * PAGE);
        let setup = [Change::Map { from: from.clone(), to: PhysAddr::new(GIB), attributes, largest }];
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
        // Hardware has marked one of them.
        let slot = table.view().path(VirtAddr::new(5 * PAGE)).last().unwrap().slot;
        memory.store(slot, Descriptor::new(memory.load(slot).bits() | Stage1Attributes::AF.bits()));
        let before = leaves(&table);
        change(&mut table, &memory, &[Change::MakeInvalid { from: from.clone() }], None);
        assert_eq!(leaves(&table), []);
        change(&mut table, &memory, &[Change::MakeValid { from: from.clone() }], None);
        assert_eq!(leaves(&table), before);
        change(&mut table, &memory, &[Change::MakeInvalid { from: from.clone() }], None);
        let set = Stage1Attributes::from_bits_retain(1 << 55);
        change(
            &mut table,
            &memory,
            &[Change::Protect { from: from.clone(), set, clear: Stage1Attributes::empty() }],
            None,
        );
        change(&mut table, &memory, &[Change::MakeValid { from }], None);
        let after = leaves(&table);
        assert!(after.len() == 16 && after.iter().all(|leaf| leaf.2.bits() & 1 << 55 != 0), "{hardware_updates:?}");
    }
}

/// Of a kept group that is dissolved no member may have no bit left.
#[test]
fn a_kept_group_loses_no_member() {
    let memory = Memory::new();
    let from = range(0, 32 * MIB);
    let (to, attributes, largest) = (PhysAddr::new(0), Stage1Attributes::AF, LeafSize::LARGEST);
    let mut table = live_4k(&memory, &[Change::Map { from: from.clone(), to, attributes, largest }]);
    change(&mut table, &memory, &[Change::MakeInvalid { from: from.clone() }], None);
    change(&mut table, &memory, &[Change::Age { from }], None);
    for wish in [
        unmap(2 * MIB, 2 * MIB),
        Change::Split { at: VirtAddr::new(4 * MIB) },
        Change::MakeValid { from: range(30 * MIB, 2 * MIB) },
    ] {
        let refusal = table.plan(std::slice::from_ref(&wish), None).map(drop);
        assert_eq!(refusal, Err(Refusal::NotKeepable(0)), "{wish:?}");
    }
}

/// A list of tables is looked through for one that no descriptor can lead to, as far as the plan needs.
#[test]
fn no_table_that_is_needed_is_too_wide() {
    let needed = 2 + tables_above();
    for wide in 0..=needed as u64 {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[]);
        // The last that is added is the first that is taken.
        let mut reserve = Reserve::new();
        for number in 0..=needed as u64 {
            reserve.add(&memory, PhysAddr::new(if number == wide { 1 << 52 } else { (3 + number) << 40 }));
        }
        let wish = [map(0, PAGE, GIB, LeafSize::PAGE)];
        let mut plan = table.plan(&wish, None).unwrap();
        assert_eq!(plan.tables_needed(), needed);
        let mut gather = plan.gather();
        let refusal = plan.apply(&mut reserve, &mut gather);
        assert_eq!(refusal, if wide == 0 { Ok(()) } else { Err(Refusal::OutputTooWide(PhysAddr::new(1 << 52))) });
    }
}

/// Of a kept group whose dirty state nobody manages any more, no member may be written that another may not: it is none, or its
/// members are alike.
#[test]
fn a_kept_group_that_is_managed_no_longer_is_uniform() {
    let memory = Memory::new();
    let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
    let attributes = DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    let from = range(0, 16 * PAGE);
    let setup = [Change::Map { from: from.clone(), to: PhysAddr::new(GIB), attributes, largest: LeafSize::LARGEST }];
    let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
    let slot = table.view().path(VirtAddr::new(5 * PAGE)).last().unwrap().slot;
    memory.store(slot, Descriptor::new(memory.load(slot).bits() & !Stage1Attributes::READ_ONLY.bits()));
    let (set, clear) = (Stage1Attributes::empty(), Stage1Attributes::DBM);
    let protect = Change::Protect { from: from.clone(), set, clear };
    for wish in [Change::MakeInvalid { from: from.clone() }, protect, Change::MakeValid { from }] {
        change(&mut table, &memory, &[wish], None);
    }
    let found = leaves(&table);
    let first = found[0].2.bits() - GIB;
    let is_alike = found.iter().all(|leaf| leaf.2.bits() - GIB - leaf.0 == first);
    assert!(found.len() == 16 && (is_alike || found.iter().all(|leaf| !leaf.2.is_contiguous())), "{found:x?}");
}

/// Nothing was to be cleaned when the plan was made, and no licence was asked for. What hardware writes before it is applied
/// comes after it: the block stays as it is.
#[test]
fn what_is_marked_too_late_stays_for_the_next() {
    let memory = Memory::new();
    let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
    let attributes = DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    let setup =
        [Change::Map { from: range(0, 2 * MIB), to: PhysAddr::new(GIB), attributes, largest: LeafSize::LARGEST }];
    let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
    let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
    let clean = [Change::Clean { from: range(5 * PAGE, PAGE) }];
    let mut reserve = Reserve::new();
    let mut plan = table.plan(&clean, None).unwrap();
    // There would be tables enough.
    memory.supply::<Granule4K>(&mut reserve, plan.tables_needed() + 3);
    let written = Descriptor::new(memory.load(slot).bits() & !Stage1Attributes::READ_ONLY.bits());
    memory.store(slot, written);
    let mut gather = plan.gather();
    plan.apply(&mut reserve, &mut gather).unwrap();
    let _ = gather.finish(&memory);
    assert_eq!(memory.load(slot), written);
    assert!(matches!(table.plan(&clean, None).map(drop), Err(Refusal::NeedsLicence(_))));
}

/// A run of leaves that change in place ends before one that may not, and before one of which nothing would be left.
#[test]
fn a_run_ends_before_what_is_refused() {
    let memory = Memory::new();
    let device = Change::Map {
        from: range(0, PAGE),
        to: PhysAddr::new(GIB),
        attributes: DATA | Stage1Attributes::memory(1),
        largest: LeafSize::PAGE,
    };
    let mut table = live_4k(&memory, &[device, map(PAGE, PAGE, GIB + PAGE, LeafSize::PAGE)]);
    let set = Stage1Attributes::memory(1) | Stage1Attributes::READ_ONLY;
    let both = [Change::Protect { from: range(0, 2 * PAGE), set, clear: Stage1Attributes::empty() }];
    assert_eq!(table.plan(&both, None).map(drop), Err(Refusal::NeedsLicence(PAGE)));

    let block = |number: u64, to| Change::Map {
        from: range(number * 2 * MIB, 2 * MIB),
        to: PhysAddr::new(to),
        attributes: Stage1Attributes::empty(),
        largest: LeafSize::single(Level::L2),
    };
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[block(0, GIB), block(1, 0)]);
    let both = [Change::MakeInvalid { from: range(0, 4 * MIB) }];
    assert_eq!(table.plan(&both, None).map(drop), Err(Refusal::NotKeepable(2 * MIB)));
}

/// Groups at the first address of all are groups.
#[test]
fn a_group_at_the_first_address_does_not_change_without_a_licence() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 32 * PAGE, GIB, LeafSize::LARGEST)]);
    assert_eq!(table.plan(&[read_only(0, 17 * PAGE)], None).map(drop), Err(Refusal::NeedsLicence(0)));
}

/// A kept group that others made, of which the first member has no bit but the group's: as a leaf of its own it would be a hole.
#[test]
fn a_kept_group_does_not_dissolve_into_holes() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 32 * MIB, GIB, LeafSize::LARGEST)]);
    for number in 0..16 {
        let place = table.view().path(VirtAddr::new(number * 2 * MIB)).last().unwrap();
        memory.store(place.slot, Descriptor::new(Descriptor::CONTIGUOUS | (number * 2 * MIB)));
    }
    let one = [Change::MakeValid { from: range(2 * MIB, 2 * MIB) }];
    assert_eq!(table.plan(&one, None).map(drop), Err(Refusal::NotKeepable(0)));
    let all = [Change::MakeValid { from: range(0, 32 * MIB) }];
    assert!(table.plan(&all, None).is_ok());
}

/// A root is one table: without one there is no page table.
#[test]
fn a_page_table_takes_a_root() {
    let (memory, mut reserve) = (Memory::new(), Reserve::new());
    let geometry = shape::<Granule4K>(39, AddressHalf::Lower);
    let refused = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).map(|table| table.root());
    assert_eq!(refused, Err(Refusal::ReserveShortBy(1)));
}
