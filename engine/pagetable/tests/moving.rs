//! Leaves that move to another range: each page leads where it led, leaves stay as large as they can, and what is refused has changed nothing.

use crate::common;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use common::counting::Counting;
use common::{DATA, GIB, KERNEL, MIB, Table, change, leaves, live, live_4k, live_at, map, unmap};
use vellum_pagetable::{Change, El1, HardwareUpdates, Memory, Platform, Refusal, Reserve, Slot, Step};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level,
    Maintenance, Meaning, PhysAddr, Stage1Attributes, VirtAddr,
};

const PAGE: u64 = 0x1000;

fn range(start: u64, bytes: u64) -> Range<VirtAddr> {
    VirtAddr::new(start)..VirtAddr::new(start + bytes)
}

/// Moves leaves with as many tables as are counted. Whether there were any; how many tables were left, and how many came free.
fn moves<G: Granule>(
    table: &mut Table<'_, G>,
    memory: &Memory,
    from: Range<VirtAddr>,
    to: u64,
) -> Result<(bool, usize, usize), Refusal> {
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, table.tables_to_move(from.clone(), VirtAddr::new(to))?);
    let mut gather = table.gather();
    let moved = table.move_leaves(from, VirtAddr::new(to), &mut reserve, &mut gather)?;
    Ok((moved, reserve.count(), gather.finish(memory).count()))
}

/// Where each page leads, with its attributes.
fn pages<G: Granule>(table: &Table<'_, G>) -> BTreeMap<u64, (u64, u64)> {
    let mut pages = BTreeMap::new();
    let _ = table.view().for_each::<()>(table.view().range(), |entry| {
        if let Meaning::Leaf(to, _) = entry.lookup.meaning {
            let attributes = entry.lookup.descriptor.bits() & (0xfff | 0xfff << 52) & !3 & !Descriptor::CONTIGUOUS;
            for at in (0..1 << entry.shift).step_by(G::SIZE_BYTES as usize) {
                pages.insert(u64::from(entry.input) + at, (to.bits() + at, attributes));
            }
        }
        ControlFlow::Continue(())
    });
    pages
}

/// A block, a contiguous group and a page before it, and pages behind it, of which one is a hole.
fn setup<G: Granule>(base: u64) -> Vec<Change<El1>> {
    let (block, group) = (G::SIZE_BYTES << G::INDEX_BITS, LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE));
    let page = G::SIZE_BYTES;
    vec![
        map(base - group, group, 8 * GIB - group, LeafSize::LARGEST),
        map(base - group - page, page, 24 * GIB, LeafSize::PAGE),
        map(base, block, 8 * GIB, LeafSize::LARGEST),
        map(base + block, page, 32 * GIB, LeafSize::PAGE),
        map(base + block + 2 * page, page, 40 * GIB, LeafSize::PAGE),
    ]
}

fn each_distance<G: Granule>() {
    let (block, group) = (G::SIZE_BYTES << G::INDEX_BITS, LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE));
    let (page, base) = (G::SIZE_BYTES, 4 * block);
    let (first, bytes) = (base - group - page, group + block + 4 * page);
    // As it lies, and one page beside, one group, and around these.
    let beside = [0, page, group - page, group, group + page, block - group, block - page];
    for (far, beside) in [64 * block, 2 * GIB].into_iter().flat_map(|far| beside.map(|beside| (far, beside))) {
        let memory = Memory::new();
        let mut table = live::<G, _>(&memory, (42, Layout::Bits48), KERNEL, &setup::<G>(base));
        let (before, distance) = (pages(&table), far + beside);
        let (moved, left, _) = moves(&mut table, &memory, range(first, bytes), first + distance).unwrap();
        let expected: BTreeMap<_, _> = before.iter().map(|(at, leaf)| (at + distance, *leaf)).collect();
        assert!(moved && pages(&table) == expected, "{far:#x} + {beside:#x}");
        assert_eq!(left, 0, "{far:#x} + {beside:#x}: as many tables as were counted");
        let size =
            |at: u64| table.view().translate(VirtAddr::new(at + distance)).unwrap().size.size_bytes(G::PAGE_SIZE);
        let (is_group, is_block) = (beside.is_multiple_of(group), beside == 0);
        assert_eq!(size(base - group), if is_group { group } else { page }, "{beside:#x}");
        assert_eq!(size(base), if is_block { block } else { size(base - group) }, "{beside:#x}");
        // Back again, to where the tables are, or are not any more.
        let (_, left, _) = moves(&mut table, &memory, range(first + distance, bytes), first).unwrap();
        assert!(pages(&table) == before && left == 0, "{far:#x} + {beside:#x} and back");
    }
}

#[test]
fn each_page_leads_where_it_led_whatever_the_distance() {
    each_distance::<Granule4K>();
    each_distance::<Granule16K>();
    each_distance::<Granule64K>();
}

/// Many blocks that become pages, across the ends of tables of level 2: a table for each, and for what the first and the last share.
#[test]
fn tables_are_counted_of_where_leaves_come_to() {
    for (blocks, to, tables) in [
        (1, 4 * GIB, 1),
        (1, 4 * GIB + PAGE, 3),
        (2, 4 * GIB + PAGE, 4),
        (10, 4 * GIB + PAGE, 12),
        (64, 5 * GIB - 2 * MIB + PAGE, 65 + 2),
        (64, 5 * GIB - 2 * MIB, 2),
        // The table of level 2 is there, and that of pages is not.
        (1, 600 * MIB + PAGE, 2),
    ] {
        let memory = Memory::new();
        let setup = [map(0, blocks * 2 * MIB, 8 * GIB, LeafSize::single(Level::L2))];
        let mut table = live_4k(&memory, &setup);
        let (from, before) = (range(0, blocks * 2 * MIB), pages(&table));
        assert_eq!(table.tables_to_move(from.clone(), VirtAddr::new(to)), Ok(tables), "{blocks} to {to:#x}");
        let mut reserve = Reserve::new();
        memory.supply::<Granule4K>(&mut reserve, tables - 1);
        let _ = memory.take_steps();
        let mut gather = table.gather();
        let refused = table.move_leaves(from.clone(), VirtAddr::new(to), &mut reserve, &mut gather);
        assert_eq!(refused, Err(Refusal::ReserveShortBy(1)));
        let is_store = |step: &Step| matches!(step, Step::Store(..) | Step::Exchange { .. });
        assert!(!memory.take_steps().iter().any(is_store) && pages(&table) == before);
        assert_eq!(moves(&mut table, &memory, from, to).map(|(moved, left, _)| (moved, left)), Ok((true, 0)));
        assert_eq!(pages(&table), before.iter().map(|(at, leaf)| (at + to, *leaf)).collect());
    }
    // A table of pages counts as if it were full.
    let memory = Memory::new();
    let table = live_4k(&memory, &[map(0, PAGE, GIB, LeafSize::PAGE)]);
    assert_eq!(table.tables_to_move(range(0, 2 * MIB), VirtAddr::new(4 * GIB + PAGE)), Ok(3));
}

#[test]
fn what_is_refused_stores_nothing() {
    let memory = Memory::new();
    let block = map(2 * MIB, 2 * MIB, 4 * GIB, LeafSize::single(Level::L2));
    let mut table = live_4k(&memory, &[block, map(16 * MIB, PAGE, GIB, LeafSize::PAGE)]);
    let _ = memory.take_steps();
    let beyond = table.geometry().input_bytes();
    for (from, to, refusal) in [
        (range(2 * MIB, 2 * MIB), 4 * MIB - PAGE, Refusal::Overlap(4 * MIB - PAGE)),
        (range(2 * MIB, 2 * MIB), PAGE, Refusal::Overlap(2 * MIB)),
        (range(2 * MIB + PAGE, 2 * MIB), 8 * MIB, Refusal::NeedsLicence(2 * MIB + PAGE)),
        (range(0, 4 * MIB - PAGE), 8 * MIB, Refusal::NeedsLicence(0)),
        (range(2 * MIB, 2 * MIB), 14 * MIB + PAGE, Refusal::AlreadyMapped(16 * MIB)),
        (range(2 * MIB, 2 * MIB), 16 * MIB, Refusal::AlreadyMapped(16 * MIB)),
        (range(2 * MIB, 2 * MIB), 8 * MIB + 1, Refusal::Misaligned(8 * MIB + 1)),
        (range(2 * MIB, 2 * MIB), beyond - PAGE, Refusal::OutOfRange(beyond)),
    ] {
        let moved = moves(&mut table, &memory, from, to);
        assert_eq!(moved, Err(refusal), "to {to:#x}");
        assert!(!memory.take_steps().iter().any(
            |step| matches!(step, Step::Store(slot, leaf) if leaf.is_valid() || slot.address().bits() < common::TABLES)
        ));
    }
    // Up to the page that is taken, and from the page behind it on.
    for to in [14 * MIB, 16 * MIB + PAGE] {
        assert_eq!(moves(&mut table, &memory, range(2 * MIB, 2 * MIB), to).map(|(moved, ..)| moved), Ok(true));
        moves(&mut table, &memory, range(to, 2 * MIB), 2 * MIB).unwrap();
    }
    assert_eq!(moves(&mut table, &memory, range(4 * MIB, 8 * MIB), GIB), Ok((false, 0, 0)), "there is nothing");
    for nowhere in [0, 2 * MIB, 2 * MIB + PAGE] {
        assert_eq!(moves(&mut table, &memory, range(nowhere, 0), GIB), Ok((false, 0, 0)), "{nowhere:#x}");
    }
}

/// A leaf without attributes that leads to the first address is a hole once it is not valid.
#[test]
fn what_could_not_be_told_from_a_hole_does_not_move() {
    let (none, group) = (Stage1Attributes::empty(), 32 * MIB);
    for (bytes, attributes, is_refused) in [
        (2 * MIB, none, true),
        (group, none, true),
        (PAGE, none, false),
        (2 * MIB, Stage1Attributes::AF, false),
        (group, Stage1Attributes::AF, false),
    ] {
        let (memory, from) = (Memory::new(), range(group, bytes));
        let (to, largest) = (PhysAddr::new(0), LeafSize::LARGEST);
        let mut table = live_4k(&memory, &[Change::Map { from: from.clone(), to, attributes, largest }]);
        let moved = moves(&mut table, &memory, from, GIB).map(|(moved, ..)| moved);
        assert_eq!(moved, if is_refused { Err(Refusal::NotKeepable(group)) } else { Ok(true) }, "{bytes:#x}");
    }
}

/// Members of a group that others left in pieces move as pages. Bits that are no leaf go with the range.
#[test]
fn pieces_of_a_group_move_as_pages() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(2 * MIB, 16 * PAGE, GIB, LeafSize::LARGEST)]);
    let slot = |page: u64| table.view().find(VirtAddr::new(2 * MIB + page * PAGE)).unwrap().slot;
    let (member, foreign) = (slot(5), slot(20));
    memory.store(member, Descriptor::new(memory.load(member).bits() + 64 * PAGE));
    memory.store(foreign, Descriptor::new(0xfff0));
    let expected = pages(&table).into_iter().map(|(at, leaf)| (at + GIB, leaf)).collect::<BTreeMap<_, _>>();
    moves(&mut table, &memory, range(2 * MIB, 2 * MIB), GIB + 2 * MIB).unwrap();
    assert_eq!(pages(&table), expected);
    assert!(leaves(&table).iter().all(|(.., leaf)| !leaf.is_contiguous()));
}

/// A root of fewer entries than a contiguous group has is not read beyond its end.
#[test]
fn a_group_that_is_larger_than_the_root_is_none() {
    let memory = Memory::new();
    let geometry = Geometry::<Granule4K>::new(33, Layout::Bits48, AddressHalf::Lower).unwrap();
    let table = live_at(&memory, geometry, KERNEL, &[map(0, 2 * GIB, 0, LeafSize::single(Level::L1))]);
    let first = table.view().find(VirtAddr::new(0)).unwrap().slot;
    memory.store(first, Descriptor::new(memory.load(first).bits() | Descriptor::CONTIGUOUS));
    // As behind the root there may be anything, leaves that lead on are there.
    for number in 2..16 {
        let leaf = Descriptor::new(memory.load(first).bits() + number as u64 * GIB);
        memory.store(Slot::new(table.root(), number), if number < 8 { Descriptor::INVALID } else { leaf });
    }
    let counting = Counting(&memory, Cell::new(0));
    let mut table = table.over(&counting);
    let mut gather = table.gather();
    assert_eq!(
        table.move_leaves(range(0, 2 * GIB), VirtAddr::new(4 * GIB), &mut Reserve::new(), &mut gather),
        Ok(true)
    );
    let _ = gather.finish(&counting);
    assert_eq!(counting.1.take(), 18, "none for the group");
}

/// Pages cost a few loads each: the way to a table of the target is gone once.
#[test]
fn the_way_to_a_table_is_gone_once() {
    let memory = Memory::new();
    let table = live_4k(&memory, &[map(0, 2 * MIB, GIB, LeafSize::PAGE)]);
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 3);
    let counting = Counting(&memory, Cell::new(0));
    let mut table = table.over(&counting);
    let mut gather = table.gather();
    table.move_leaves(range(0, 2 * MIB), VirtAddr::new(GIB + PAGE), &mut reserve, &mut gather).unwrap();
    let _ = gather.finish(&counting);
    assert!(counting.1.take() < 512 * 5 / 2);
}

/// A leaf is valid in its new place once TLBs have forgotten it in the old one, however many there are: one wait for all.
#[test]
fn tlbs_forget_before_anything_is_valid_again() {
    let memory = Memory::new();
    let pages = (0..600).map(|page| map(page * PAGE, PAGE, GIB + 2 * page * PAGE, LeafSize::PAGE));
    let mut table = live_4k(&memory, &pages.collect::<Vec<_>>());
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 8);
    let _ = memory.take_steps();
    let mut gather = table.gather();
    table.move_leaves(range(0, 600 * PAGE), VirtAddr::new(GIB + PAGE), &mut reserve, &mut gather).unwrap();
    let steps = memory.take_steps();
    let waits: Vec<usize> = (0..steps.len()).filter(|&at| steps[at] == Step::Maintain(Maintenance::DSB_ISH)).collect();
    assert_eq!(waits.len(), 1);
    let stores = |steps: &[Step], is_valid: bool| {
        steps.iter().filter(|step| matches!(step, Step::Store(_, leaf) if leaf.is_valid() == is_valid)).count()
    };
    let (before, behind) = steps.split_at(waits[0]);
    assert_eq!((stores(before, true), stores(before, false)), (0, 600), "bit 0 is cleared");
    assert!(stores(behind, true) > 600, "pages, and tables");
    let _ = gather.finish(&memory);
}

/// What hardware has marked in a leaf up to the moment that TLBs forget it, and in any member of a group, is true of the pages that move.
#[test]
fn marks_move_with_the_pages() {
    let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
    let clean = (DATA - Stage1Attributes::AF) | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    let sizes = [(PAGE, PAGE), (16 * PAGE, 0), (16 * PAGE, PAGE), (2 * MIB, 0), (2 * MIB, PAGE)];
    let places = |(bytes, beside)| [0, (bytes / 2) & !(PAGE - 1), bytes - PAGE, bytes].map(|at| (bytes, beside, at));
    for (bytes, beside, mark) in sizes.into_iter().flat_map(places) {
        let memory = Memory::new();
        let from = range(2 * MIB, bytes);
        let to = PhysAddr::new(4 * GIB);
        // A page behind it may be marked, too, and stays.
        let behind = Change::Map { from: range(2 * MIB + bytes, PAGE), to, attributes: clean, largest: LeafSize::PAGE };
        let setup = [Change::Map { from: from.clone(), to, attributes: clean, largest: LeafSize::LARGEST }, behind];
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
        let marked = table.view().path(VirtAddr::new(2 * MIB + mark)).last().unwrap();
        let bits = (marked.descriptor.bits() | Stage1Attributes::AF.bits()) & !Stage1Attributes::READ_ONLY.bits();
        memory.store(marked.slot, Descriptor::new(bits));
        moves(&mut table, &memory, from, 64 * MIB + beside).unwrap();
        let is_behind = mark == bytes;
        let leaves = leaves(&table).into_iter().filter(|(at, ..)| *at >= 64 * MIB).collect::<Vec<_>>();
        assert_eq!(leaves.iter().map(|(_, bytes, _)| bytes).sum::<u64>(), bytes);
        for (at, bytes, leaf) in leaves {
            let attributes = Stage1Attributes::from_bits_retain(leaf.bits());
            let is_written =
                attributes.contains(Stage1Attributes::AF) && !attributes.contains(Stage1Attributes::READ_ONLY);
            // Of a group that stays one, one member may say it for all.
            let is_whole = beside == 0 && bytes == PAGE;
            let is_right = if is_behind { !is_written } else { is_written || is_whole };
            assert!(is_right, "{bytes:#x} at {at:#x}, {beside:#x} beside, {mark:#x} marked");
        }
    }
}

/// Tables that a range leaves empty come free, and those that it has a part of stay.
#[test]
fn tables_that_hold_nothing_any_more_come_free() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 4 * MIB + PAGE, GIB, LeafSize::PAGE)]);
    assert_eq!(moves(&mut table, &memory, range(0, 4 * MIB + PAGE), GIB), Ok((true, 0, 2)));
    change(&mut table, &memory, &[unmap(4 * MIB, PAGE)], None);
    assert_eq!(table.tables_to_move(range(GIB, PAGE), VirtAddr::new(4 * MIB)), Ok(0), "it is there");
    // Pages that are kept are valid in their new place.
    change(&mut table, &memory, &[Change::MakeInvalid { from: range(GIB, 2 * PAGE) }], None);
    assert_eq!(moves(&mut table, &memory, range(GIB, PAGE), 4 * MIB), Ok((true, 0, 0)));
    assert_eq!(table.view().translate(VirtAddr::new(4 * MIB)).unwrap().output.bits(), GIB);
}
