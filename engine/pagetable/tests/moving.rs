//! Leaves that move to another range: each page leads where it led, leaves stay as large as they can, and what is refused has changed nothing.

use crate::common;

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use common::{DATA, GIB, KERNEL, MIB, Table, change, leaves, live, live_4k, map, unmap};
use vellum_pagetable::{Change, El1, HardwareUpdates, Memory, Platform, Refusal, Reserve, Step};
use vellum_vmsa::{
    Descriptor, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, Maintenance, Meaning, PhysAddr,
    Stage1Attributes, VirtAddr,
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
}

#[test]
fn what_is_refused_stores_nothing() {
    let memory = Memory::new();
    let block = map(2 * MIB, 2 * MIB, 4 * GIB, LeafSize::single(Level::L2));
    let mut table = live_4k(&memory, &[block, map(16 * MIB, PAGE, GIB, LeafSize::PAGE)]);
    let _ = memory.take_steps();
    let beyond = 1 << 39;
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
    assert_eq!(moves(&mut table, &memory, range(0, 0), 0), Ok((false, 0, 0)));
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
    for (bytes, beside) in [(PAGE, PAGE), (16 * PAGE, 0), (16 * PAGE, PAGE), (2 * MIB, 0), (2 * MIB, PAGE)] {
        let memory = Memory::new();
        let from = range(2 * MIB, bytes);
        let to = PhysAddr::new(4 * GIB);
        let setup = [Change::Map { from: from.clone(), to, attributes: clean, largest: LeafSize::LARGEST }];
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), regime, &setup);
        let marked = table.view().path(VirtAddr::new(2 * MIB + ((bytes / 2) & !(PAGE - 1)))).last().unwrap();
        let bits = (marked.descriptor.bits() | Stage1Attributes::AF.bits()) & !Stage1Attributes::READ_ONLY.bits();
        memory.store(marked.slot, Descriptor::new(bits));
        moves(&mut table, &memory, from, 64 * MIB + beside).unwrap();
        let leaves = leaves(&table);
        assert_eq!(leaves.iter().map(|(_, bytes, _)| bytes).sum::<u64>(), bytes);
        for (at, bytes, leaf) in leaves {
            let attributes = Stage1Attributes::from_bits_retain(leaf.bits());
            let is_written =
                attributes.contains(Stage1Attributes::AF) && !attributes.contains(Stage1Attributes::READ_ONLY);
            // Of a group that stays one, one member may say it for all.
            let is_whole = beside == 0 && bytes == PAGE;
            assert!(is_written || is_whole, "{bytes:#x} at {at:#x}, {beside:#x} beside");
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
