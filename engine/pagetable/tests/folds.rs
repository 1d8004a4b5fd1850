//! What becomes one leaf or one contiguous group, and what does not: whole groups within the range alone, and nothing that any
//! of its members, at any place, says otherwise.

use crate::common;

use common::{DATA, GIB, KERNEL, MIB, change, each_licence, leaves, live, live_4k, map, read_only, shape, unmap};
use vellum_pagetable::{
    Change, El1, HardwareUpdates, Licence, Memory, PageTable, Platform, Rehearsal, Reserve, Slot, Step,
};
use vellum_vmsa::{
    AddressHalf, Descriptor, Granule, Granule4K, Granule64K, Layout, LeafSize, Level, PhysAddr, Stage1Attributes,
    VirtAddr,
};

const PAGE: u64 = 0x1000;
const GROUP: u64 = 16 * PAGE;
const AF: u64 = Stage1Attributes::AF.bits();
const READ_ONLY: u64 = Stage1Attributes::READ_ONLY.bits();
const WHOLE: Change<El1> = Change::Collapse { from: VirtAddr::new(0)..VirtAddr::new(2 * MIB) };

fn range(from: u64, bytes: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// Start and bytes of each leaf that is one of a group, or above level 3.
fn folded<G: Granule>(table: &PageTable<'_, G, El1, Memory>) -> Vec<u64> {
    leaves(table).iter().filter(|leaf| leaf.2.is_contiguous()).map(|leaf| leaf.0).collect()
}

#[test]
fn groups_are_made_where_they_are_whole_within_the_range() {
    let edges = [0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 50, 64];
    for (first, last) in edges.iter().flat_map(|first| edges.iter().map(move |last| (*first, *last))) {
        if first >= last {
            continue;
        }
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 64 * PAGE, GIB, LeafSize::PAGE)]);
        let fold = Change::Collapse { from: range(first * PAGE, (last - first) * PAGE) };
        change(&mut table, &memory, &[fold], Some(&Licence::break_before_make(&())));
        let whole = |page: &u64| page / 16 * 16 >= first && (page / 16 + 1) * 16 <= last;
        let expected: Vec<u64> = (0..64).filter(whole).map(|page| page * PAGE).collect();
        assert_eq!(folded(&table), expected, "{first}..{last}");
    }
}

/// What stands behind the last member does not count: another page, a hole, another table.
#[test]
fn what_stands_beside_a_group_is_no_matter() {
    for (from, beside) in [(0, 0), (0, PAGE), (2 * MIB - GROUP, 0), (2 * MIB - GROUP, PAGE)] {
        let memory = Memory::new();
        let setup = [map(from, GROUP, GIB + from, LeafSize::PAGE), map(from + GROUP, beside, 7 * GIB, LeafSize::PAGE)];
        let mut table = live_4k(&memory, &setup);
        let fold = Change::Collapse { from: range(0, 4 * MIB) };
        change(&mut table, &memory, &[fold], Some(&Licence::break_before_make(&())));
        assert_eq!(folded(&table), (0..16).map(|page| from + page * PAGE).collect::<Vec<_>>());
    }
}

/// Addresses that agree in the low bits of a page, and in no more.
#[test]
fn output_that_is_not_aligned_is_no_group() {
    for page in 1..16 {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 2 * MIB, GIB + page * PAGE, LeafSize::PAGE)]);
        change(&mut table, &memory, &[WHOLE], Some(&Licence::break_before_make(&())));
        assert_eq!((folded(&table), leaves(&table).len()), (vec![], 512), "{page}");
    }
}

/// Whether a collapse of the first 2 MiB would leave a block, and with which bits.
fn block_of(table: &PageTable<'_, Granule4K, El1, Memory>, memory: &Memory) -> Option<Descriptor> {
    let rehearsal = Rehearsal::new(memory);
    let mut rehearsed = table.over(&rehearsal);
    let licence = Licence::break_before_make(&());
    let mut plan = rehearsed.plan(&[WHOLE], Some(&licence)).unwrap();
    let mut gather = plan.gather();
    plan.apply(&mut Reserve::new(), &mut gather).unwrap();
    let _ = gather.finish(&rehearsal);
    let found = rehearsed.view().path(VirtAddr::new(0)).last().unwrap();
    (found.level == Level::L2).then_some(found.descriptor)
}

/// Five hundred and twelve pages, kept or valid, that are live or not.
fn pages<'m>(
    memory: &'m Memory,
    (is_live, is_kept): (bool, bool),
    hardware_updates: HardwareUpdates,
) -> (PageTable<'m, Granule4K, El1, Memory>, Vec<Slot>) {
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 1);
    let geometry = shape(39, AddressHalf::Lower);
    let regime = El1 { hardware_updates, ..KERNEL };
    let mut table = PageTable::offline(memory, geometry, regime, &mut reserve).unwrap();
    let attributes = DATA.difference(Stage1Attributes::AF) | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    let setup = Change::Map { from: range(0, 2 * MIB), to: PhysAddr::new(GIB), attributes, largest: LeafSize::PAGE };
    change(&mut table, memory, &[setup], None);
    if is_kept {
        change(&mut table, memory, &[Change::MakeInvalid { from: range(0, 2 * MIB) }], None);
    }
    let table = if is_live { table.publish() } else { table };
    let slot = |page: u64| table.view().path(VirtAddr::new(page * PAGE)).last().unwrap().slot;
    let slots = (0..512).map(slot).collect();
    (table, slots)
}

/// A page that is kept among valid ones, or leads elsewhere, or may do something else: at each of 512 places.
#[test]
fn no_page_of_a_table_is_folded_away() {
    for is_kept in [false, true] {
        let memory = Memory::new();
        let (table, slots) = pages(&memory, (true, is_kept), HardwareUpdates::None);
        assert!(block_of(&table, &memory).is_some());
        for (place, slot) in slots.iter().enumerate().step_by(if is_kept { 7 } else { 1 }) {
            let bit = [Descriptor::VALID, AF, 1 << 55, 1 << 30][place % 4];
            let old = memory.load(*slot);
            memory.store(*slot, Descriptor::new(old.bits() ^ bit));
            assert_eq!(block_of(&table, &memory), None, "{bit:#x} at {place}");
            memory.store(*slot, old);
        }
    }
}

/// What was accessed or written in any of the pages was so in the block: and what was not, was not.
#[test]
fn a_block_has_the_marks_of_every_page_and_no_others() {
    for state in [(false, false), (false, true), (true, true), (true, false)] {
        let memory = Memory::new();
        let (table, slots) = pages(&memory, state, HardwareUpdates::DirtyState);
        let bits =
            |memory| block_of(&table, memory).map(|block| block.bits() & (AF | READ_ONLY | Descriptor::CONTIGUOUS));
        assert_eq!(bits(&memory), Some(READ_ONLY), "{state:?}");
        for place in (0..512).step_by(37).chain([1, 2, 7, 8, 9, 504, 508, 511]) {
            for (mark, expected) in [(AF, AF | READ_ONLY), (READ_ONLY, 0)] {
                let old = memory.load(slots[place]);
                memory.store(slots[place], Descriptor::new(old.bits() ^ mark));
                assert_eq!(bits(&memory), Some(expected), "{mark:#x} at {place}, {state:?}");
                memory.store(slots[place], old);
            }
        }
        // Marked all over, as what is written in one go is.
        for sixteen in slots.chunks(16).step_by(5) {
            for (mark, expected) in [(AF, AF | READ_ONLY), (READ_ONLY, 0)] {
                let toggle = || {
                    let toggled = |slot| Descriptor::new(memory.load(slot).bits() ^ mark);
                    sixteen.iter().for_each(|slot| memory.store(*slot, toggled(*slot)));
                };
                toggle();
                assert_eq!(bits(&memory), Some(expected), "{mark:#x} of {:?}, {state:?}", sixteen[0]);
                toggle();
            }
        }
    }
}

/// Some of the pages are groups already: the block is none.
#[test]
fn a_block_of_groups_and_pages_is_one_of_no_group() {
    for is_live in [false, true] {
        for (first, last) in [(0, 256), (16, 512), (0, 512), (496, 512)] {
            let memory = Memory::new();
            let (mut table, slots) = pages(&memory, (is_live, true), HardwareUpdates::None);
            slots[first..last].iter().for_each(|slot| {
                memory.store(*slot, Descriptor::new(memory.load(*slot).bits() | Descriptor::CONTIGUOUS));
            });
            change(&mut table, &memory, &[WHOLE], None);
            let block = table.view().path(VirtAddr::new(0)).last().unwrap();
            assert_eq!((block.level, block.descriptor.is_contiguous()), (Level::L2, false), "{first}..{last}");
        }
    }
}

/// A table of blocks and of tables becomes one block, which says what they said.
#[test]
fn tables_in_tables_become_one_block() {
    let clean = DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    for hardware_updates in [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState] {
        each_licence(|licence| {
            let memory = Memory::new();
            let largest = LeafSize::single(Level::L2);
            let from = range(0, GIB);
            let setup = Change::Map { from: from.clone(), to: PhysAddr::new(GIB), attributes: clean, largest };
            let regime = El1 { hardware_updates, ..KERNEL };
            let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &[setup]);
            change(&mut table, &memory, &[Change::SplitToPages { from: range(6 * MIB, PAGE) }], Some(licence));
            let (_, retired) = change(&mut table, &memory, &[Change::Collapse { from }], Some(licence));
            let [(0, GIB, leaf)] = leaves(&table)[..] else { panic!("no block: {licence:?}") };
            assert_eq!(retired, 2);
            let is_break = format!("{licence:?}").contains("Break");
            if is_break || hardware_updates != HardwareUpdates::DirtyState {
                assert_eq!(leaf.bits() & READ_ONLY, READ_ONLY, "nobody wrote: {licence:?} {hardware_updates:?}");
            }
        });
    }
}

/// What a table forbids to all below it is no attribute of a leaf: what is below stays there.
#[test]
fn a_table_with_limits_is_not_folded_into_what_is_around() {
    for limit in [1 << 62, 1 << 61, 1 << 60, 1 << 59] {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, GIB, GIB, LeafSize::single(Level::L2))]);
        let licence = Licence::break_before_make(&());
        change(&mut table, &memory, &[Change::SplitToPages { from: range(6 * MIB, PAGE) }], Some(&licence));
        let path: Vec<Slot> = table.view().path(VirtAddr::new(6 * MIB)).map(|lookup| lookup.slot).collect();
        let above = path[path.len() - 2];
        let limited = Descriptor::new(memory.load(above).bits() | limit);
        memory.store(above, limited);
        change(&mut table, &memory, &[Change::Collapse { from: range(0, GIB) }], Some(&licence));
        assert_eq!(memory.load(above), limited, "{limit:#x}");
        let found = table.view().path(VirtAddr::new(6 * MIB)).last().unwrap();
        assert_eq!(found.level, Level::L3, "{limit:#x}");
    }
}

/// Tables that happen to lie as far apart as what they map are no leaves: each is looked into.
#[test]
fn tables_that_lie_like_blocks_are_looked_into() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, GIB, GIB, LeafSize::single(Level::L2))]);
    let licence = Licence::break_before_make(&());
    for number in 0..2 {
        let mut reserve = Reserve::new();
        reserve.add(&memory, PhysAddr::new(16 * GIB + number * 2 * MIB));
        let pages = [Change::SplitToPages { from: range(number * 2 * MIB, 2 * MIB) }];
        let mut plan = table.plan(&pages, Some(&licence)).unwrap();
        let mut gather = plan.gather();
        plan.apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(&memory);
    }
    change(&mut table, &memory, &[read_only(2 * MIB + 5 * PAGE, PAGE)], None);
    change(&mut table, &memory, &[Change::Collapse { from: range(0, GIB) }], Some(&licence));
    let found = table.view().translate(VirtAddr::new(2 * MIB + 5 * PAGE)).unwrap();
    assert_eq!((found.size, found.descriptor.bits() & READ_ONLY), (LeafSize::PAGE, READ_ONLY));
}

/// What is one group already is not made one again.
#[test]
fn a_group_is_folded_once() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 4 * GROUP, GIB, LeafSize::LARGEST)]);
    let fold = [Change::Collapse { from: range(0, 4 * GROUP) }];
    assert_eq!(change(&mut table, &memory, &fold, Some(&Licence::break_before_make(&()))), (vec![], 0));
}

/// Leaves of level 0 stand alone: there are no groups of them.
#[test]
fn where_there_are_no_groups_leaves_stand_alone() {
    let memory = Memory::new();
    let bytes = 1024 * GIB;
    let setup = [map(0, bytes, bytes, LeafSize::LARGEST)];
    let table = live::<Granule4K, _>(&memory, (48, Layout::Lpa2), KERNEL, &setup);
    let found: Vec<(u64, bool)> = leaves(&table).iter().map(|leaf| (leaf.1, leaf.2.is_contiguous())).collect();
    assert_eq!(found, [(bytes / 2, false); 2]);
}

/// A root that is one group.
#[test]
fn a_root_as_large_as_a_group_holds_one() {
    let memory = Memory::new();
    let mut table =
        live::<Granule4K, _>(&memory, (34, Layout::Bits48), KERNEL, &[map(0, 16 * GIB, 0, LeafSize::LARGEST)]);
    assert_eq!(folded(&table).len(), 16);
    change(&mut table, &memory, &[unmap(3 * GIB, GIB)], Some(&Licence::break_before_make(&())));
    assert_eq!((folded(&table).len(), leaves(&table).len()), (0, 15));
}

/// Single pages before a group change as they are; the group of which a part changes is one no more.
#[test]
fn a_run_of_pages_ends_where_a_group_begins() {
    for (bytes, groups) in [(20 * PAGE, 0), (32 * PAGE, 16)] {
        each_licence(|licence| {
            let memory = Memory::new();
            let mut table = live_4k(&memory, &[map(0, 16 * PAGE, 3 * GIB, LeafSize::PAGE)]);
            change(&mut table, &memory, &[map(GROUP, GROUP, GIB, LeafSize::LARGEST)], None);
            let (steps, _) = change(&mut table, &memory, &[read_only(0, bytes)], Some(licence));
            assert_eq!(folded(&table).len(), groups);
            let is_read_only = |leaf: &&(u64, u64, Descriptor)| leaf.2.bits() & READ_ONLY != 0;
            assert_eq!(leaves(&table).iter().filter(is_read_only).count() as u64, bytes / PAGE);
            // A member changes when it is one no longer, or is broken.
            let mut seen: std::collections::BTreeMap<Slot, Descriptor> = std::collections::BTreeMap::new();
            let contiguous = Descriptor::CONTIGUOUS | Descriptor::VALID;
            for step in steps {
                let Step::Store(slot, new) = step else { continue };
                let is_member = |it: &Descriptor| it.bits() & contiguous == contiguous;
                if let Some(old) = seen.insert(slot, new) {
                    let has_changed = (old.bits() ^ new.bits()) & READ_ONLY != 0;
                    assert!(!(has_changed && is_member(&old) && is_member(&new)), "{slot:?}");
                } else {
                    assert!(
                        !(is_member(&new) && new.bits() & READ_ONLY != 0),
                        "{slot:?} is read-only as a member at once"
                    );
                }
            }
        });
    }
}

/// A group whose dirty state hardware manages no longer is none: the marks of its members may differ.
#[test]
fn a_group_that_is_managed_no_longer_is_dissolved() {
    let (none, dbm) = (Stage1Attributes::empty(), Stage1Attributes::DBM);
    for (hardware_updates, clear, groups) in [
        (HardwareUpdates::None, dbm, 16),
        (HardwareUpdates::AccessFlag, dbm, 16),
        (HardwareUpdates::DirtyState, dbm, 0),
        (HardwareUpdates::DirtyState, dbm | Stage1Attributes::READ_ONLY, 16),
        (HardwareUpdates::DirtyState, Stage1Attributes::AF, 16),
        (HardwareUpdates::DirtyState, none, 16),
    ] {
        let memory = Memory::new();
        let attributes = DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
        let (from, largest) = (range(0, GROUP), LeafSize::LARGEST);
        let setup = [Change::Map { from: from.clone(), to: PhysAddr::new(GIB), attributes, largest }];
        let regime = El1 { hardware_updates, ..KERNEL };
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
        let protect = Change::Protect { from, set: none, clear };
        change(&mut table, &memory, &[protect], Some(&Licence::break_before_make(&())));
        assert_eq!(folded(&table).len(), groups, "{hardware_updates:?}");
    }
}

/// Where address bits stand elsewhere in the descriptor from some page on, leaves and groups lead where they should.
fn check_beyond<G: Granule>(bits: u32, layout: Layout, border: u64) {
    let size = G::SIZE_BYTES;
    let group = LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE);
    // Aligned as a group, or as a page.
    for before in [group, group / 2, size] {
        let memory = Memory::new();
        let (from, bytes) = (4 * group, 3 * group + 3 * size);
        let to = border - before;
        let setup = [map(from, bytes, to, LeafSize::group(Level::L3))];
        let table = live::<G, _>(&memory, (bits, layout), KERNEL, &setup);
        assert_eq!(leaves(&table).len() as u64, bytes / size);
        for offset in (0..bytes).step_by(size as usize) {
            let found = table.view().translate(VirtAddr::new(from + offset)).unwrap();
            assert_eq!(found.output, PhysAddr::new(to + offset), "{offset:#x} of {to:#x}");
            let start = (from + offset) / group * group;
            let is_group = before == group && start + group <= from + bytes;
            assert_eq!(found.size.contiguous, is_group, "{offset:#x} of {to:#x}");
        }
    }
}

#[test]
fn pages_beyond_the_bits_of_48_lead_where_they_should() {
    check_beyond::<Granule64K>(48, Layout::Lpa, 1 << 48);
    check_beyond::<Granule4K>(48, Layout::Lpa2, 1 << 50);
}
