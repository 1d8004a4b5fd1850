//! What holds an address folds upwards: as far as all is alike, within a range, and not for nothing.

use crate::common;

use std::ops::Range;

use common::{GIB, MIB, Table, change, each_licence, leaves, live_4k, map, read_only};
use vellum_pagetable::{Change, El1, Licence, Memory, Platform, Step};
use vellum_vmsa::{Descriptor, Granule4K, LeafSize, Level, Stage1Attributes, VirtAddr};

const PAGE: u64 = 0x1000;
/// What a block of 1 GiB and its neighbours lie in.
const ALL: Range<VirtAddr> = VirtAddr::new(0)..VirtAddr::new(4 * GIB);

fn range(from: u64, bytes: u64) -> Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

fn writable(from: u64, bytes: u64) -> Change<El1> {
    Change::Protect { from: range(from, bytes), set: Stage1Attributes::empty(), clear: Stage1Attributes::READ_ONLY }
}

/// Folds upwards from `at`. The size of what holds it then, and the tables that came free.
fn fold(
    table: &mut Table<'_, Granule4K>,
    memory: &Memory,
    at: u64,
    within: &Range<VirtAddr>,
    licence: Option<&Licence<'_>>,
) -> (LeafSize, usize) {
    let mut gather = table.gather();
    let size = table.fold_up(VirtAddr::new(at), within, licence, &mut gather);
    (size, gather.finish(memory).count())
}

#[test]
fn a_page_folds_to_the_block_that_it_was_a_part_of() {
    each_licence(|licence| {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, 2 * GIB, 0, LeafSize::LARGEST)]);
        let before = leaves(&table);
        for again in [read_only(5 * MIB, PAGE), writable(5 * MIB, PAGE)] {
            change(&mut table, &memory, &[again], Some(licence));
        }
        assert_eq!(fold(&mut table, &memory, 4 * MIB, &ALL, Some(licence)), (LeafSize::single(Level::L1), 2));
        assert_eq!(leaves(&table), before);
    });
}

/// The last of two that folds, folds for both; and what is as large as it can be is left alone.
#[test]
fn what_stands_beside_a_table_waits_for_it() {
    each_licence(|licence| {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, GIB, 0, LeafSize::LARGEST)]);
        let before = leaves(&table);
        let (one, other) = (3 * MIB, 64 * MIB);
        for deed in [read_only, writable] {
            change(&mut table, &memory, &[deed(one, PAGE), deed(other, PAGE)], Some(licence));
        }
        // The group beside, whole, and the table above it, which is not.
        assert_eq!(fold(&mut table, &memory, one, &ALL, Some(licence)), (LeafSize::group(Level::L2), 1));
        assert_eq!(fold(&mut table, &memory, other, &ALL, Some(licence)), (LeafSize::single(Level::L1), 2));
        assert_eq!(leaves(&table), before);
        let _ = memory.take_steps();
        assert_eq!(fold(&mut table, &memory, other, &ALL, Some(licence)), (LeafSize::single(Level::L1), 0));
        assert_eq!(memory.take_steps(), []);
    });
}

#[test]
fn nothing_folds_that_reaches_outside_or_has_no_licence() {
    let split = || {
        let memory = Box::leak(Box::new(Memory::new()));
        let mut table = live_4k(memory, &[map(0, GIB, 0, LeafSize::LARGEST)]);
        each_licence(|licence| {
            for deed in [read_only, writable] {
                change(&mut table, memory, &[deed(3 * MIB, PAGE)], Some(licence));
            }
        });
        (&*memory, table)
    };
    let licence = Licence::break_before_make(&());
    let group = 32 * MIB;
    for (within, size, tables) in [
        (range(2 * MIB, 2 * MIB - PAGE), LeafSize::PAGE, 0),
        (range(2 * MIB + PAGE, GIB), LeafSize::PAGE, 0),
        (range(2 * MIB, 2 * MIB), LeafSize::single(Level::L2), 1),
        (range(0, group - PAGE), LeafSize::single(Level::L2), 1),
        (range(PAGE, group), LeafSize::single(Level::L2), 1),
        (range(0, group), LeafSize::group(Level::L2), 1),
        (range(0, GIB - PAGE), LeafSize::group(Level::L2), 1),
        (range(0, GIB), LeafSize::single(Level::L1), 2),
    ] {
        let (memory, mut table) = split();
        assert_eq!(fold(&mut table, memory, 3 * MIB, &within, Some(&licence)), (size, tables), "{within:?}");
    }
    let (memory, mut table) = split();
    let _ = memory.take_steps();
    assert_eq!(fold(&mut table, memory, 3 * MIB, &ALL, None).0.level, Level::L3);
    let end = table.geometry().input_bytes();
    assert_eq!(fold(&mut table, memory, end, &ALL, None), (LeafSize::PAGE, 0));
    let stores = memory.take_steps();
    assert!(!stores.iter().any(|step| matches!(step, Step::Store(..))), "{stores:?}");
}

/// A page among them is something else: the others become groups again, and nothing above folds.
#[test]
fn pages_of_a_mixed_table_fold_into_groups() {
    each_licence(|licence| {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, GIB, 0, LeafSize::LARGEST)]);
        change(&mut table, &memory, &[read_only(0, PAGE), read_only(MIB, PAGE)], Some(licence));
        let before = leaves(&table);
        change(&mut table, &memory, &[read_only(MIB + 64 * PAGE, PAGE)], Some(licence));
        change(&mut table, &memory, &[writable(MIB + 64 * PAGE, PAGE)], Some(licence));
        assert_ne!(leaves(&table), before);
        assert_eq!(fold(&mut table, &memory, 0, &ALL, Some(licence)), (LeafSize::PAGE, 0));
        assert_eq!(leaves(&table), before);
    });
}

/// Kept leaves fold into kept ones, past groups, which kept leaves do not form; and holes into one.
#[test]
fn kept_leaves_and_holes_fold() {
    let licence = Licence::break_before_make(&());
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, GIB, 0, LeafSize::LARGEST)]);
    change(&mut table, &memory, &[Change::MakeInvalid { from: range(0, GIB / 2) }], Some(&licence));
    change(&mut table, &memory, &[Change::MakeInvalid { from: range(GIB / 2, GIB / 2) }], Some(&licence));
    assert_eq!(fold(&mut table, &memory, 0, &ALL, Some(&licence)), (LeafSize::single(Level::L1), 1));
    let kept = table.view().path(VirtAddr::new(0)).last().unwrap();
    assert!(kept.level == Level::L1 && !kept.descriptor.is_valid() && kept.descriptor != Descriptor::INVALID);
    let mut table = live_4k(&memory, &[map(0, PAGE, 0, LeafSize::LARGEST)]);
    change(&mut table, &memory, &[Change::UnmapMapped { from: range(0, PAGE) }], Some(&licence));
    assert_eq!(fold(&mut table, &memory, 0, &ALL, Some(&licence)), (LeafSize::single(Level::L1), 2));
    assert_eq!(leaves(&table).len(), 0);
}

/// A descriptor of bit 0 alone is a block at address 0, and no hole.
#[test]
fn a_table_of_holes_and_a_block_without_attributes_stays() {
    let licence = Licence::break_before_make(&());
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(10 * MIB, 2 * MIB, 0, LeafSize::LARGEST)]);
    let slot = table.view().path(VirtAddr::new(10 * MIB)).last().unwrap().slot;
    memory.store(slot, Descriptor::new(Descriptor::VALID));
    assert_eq!(fold(&mut table, &memory, 0, &ALL, Some(&licence)), (LeafSize::single(Level::L2), 0));
    assert_eq!(memory.load(slot), Descriptor::new(Descriptor::VALID));
}
