//! Plans of copies of many ranges: how many tables they take, each counted once, and that as many are enough.

use crate::common;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;

use common::counting::Counting;
use common::{GIB, KERNEL, MIB, PLAIN_KERNEL, Table, leaves, live_at, map};
use vellum_pagetable::{CopyEdit, El1, Licence, Memory, PageTable, Refusal, Reserve};
use vellum_vmsa::{AddressHalf, Geometry, Granule4K, LeafSize, Stage1Attributes, VirtAddr};

const PAGE: u64 = 0x1000;

fn ranges(all: &[(u64, u64)]) -> impl Iterator<Item = Range<VirtAddr>> + Clone {
    all.iter().map(|&(start, end)| VirtAddr::new(start)..VirtAddr::new(end))
}

fn read_only() -> CopyEdit<'static, El1> {
    CopyEdit { set: Stage1Attributes::READ_ONLY, clear: Stage1Attributes::empty(), licence: None }
}

fn shape() -> Geometry<Granule4K> {
    common::shape(48, AddressHalf::Lower)
}

/// A page at the start of each range, and one at its end.
fn with_pages<'m>(memory: &'m Memory, regime: El1, all: &[(u64, u64)]) -> Table<'m, Granule4K> {
    let pages: BTreeSet<u64> = all.iter().flat_map(|&(start, end)| [start, end - PAGE]).collect();
    let pages: Vec<_> = pages.into_iter().map(|at| map(at, PAGE, (1 << 46) + at, LeafSize::PAGE)).collect();
    live_at(memory, shape(), regime, &pages)
}

/// Copies ranges with as many tables as are counted; how many those were, and how many were left.
fn copies(regime: El1, all: &[(u64, u64)]) -> (usize, usize) {
    let memory = Memory::new();
    let mut table = with_pages(&memory, regime, all);
    let mut root = Reserve::new();
    memory.supply::<Granule4K>(&mut root, 1);
    let mut there: Table<'_, Granule4K> = PageTable::offline(&memory, shape(), regime, &mut root).unwrap();
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let before = leaves(&table);
    let mut plan = table.plan_copy(ranges(all), read_only()).unwrap();
    let tables = plan.tables();
    memory.supply::<Granule4K>(&mut reserve, tables - 1);
    let short = plan.apply(&mut there, &mut reserve, &mut gather, |_, _, _, _| {});
    assert_eq!((short, leaves(&there)), (Err(Refusal::ReserveShortBy(1)), vec![]));
    memory.supply::<Granule4K>(&mut reserve, 1);
    let mut told = 0;
    plan.apply(&mut there, &mut reserve, &mut gather, |_, _, _, count| told += count).unwrap();
    let _ = gather.finish(&memory);
    assert_eq!((leaves(&table), told), (leaves(&there), before.len()));
    assert!(leaves(&there).iter().all(|(_, _, leaf)| leaf.bits() & Stage1Attributes::READ_ONLY.bits() != 0));
    (tables, reserve.count())
}

#[test]
fn a_table_that_many_ranges_have_is_counted_once() {
    let block = 2 * MIB;
    for regime in [KERNEL, PLAIN_KERNEL] {
        // All in one table of pages; then one that begins where that ends, and one that goes on beyond the end of a table.
        let near = [(0, PAGE), (3 * PAGE, 5 * PAGE), (block - PAGE, block)];
        assert_eq!(copies(regime, &near), (3, 0));
        assert_eq!(copies(regime, &[(0, PAGE), (block, block + PAGE)]), (4, 0));
        assert_eq!(copies(regime, &[(0, block), (block, block + PAGE), (block + 2 * PAGE, 3 * block)]), (5, 0));
        // In another table of level 2, of level 1; and where each table above is another.
        assert_eq!(copies(regime, &[(0, PAGE), (GIB, GIB + PAGE), (GIB + block, GIB + block + PAGE)]), (6, 0));
        assert_eq!(copies(regime, &[(GIB - PAGE, GIB), (GIB, GIB + PAGE), (512 * GIB, 512 * GIB + PAGE)]), (8, 0));
    }
}

/// Who gives ranges out of order has more counted, never less.
#[test]
fn ranges_out_of_order_are_copied_all_the_same() {
    let (low, high) = ((3 * MIB, 3 * MIB + PAGE), (9 * MIB, 9 * MIB + PAGE));
    assert_eq!(copies(PLAIN_KERNEL, &[high, low]), (4 + 2, 2));
    assert_eq!(copies(PLAIN_KERNEL, &[(4 * PAGE, 5 * PAGE), (0, PAGE)]), (3 + 3, 3));
}

/// A range that begins below the one before it, and overlaps it, has tables of its own below.
#[test]
fn a_range_that_overlaps_the_one_before_from_below_is_counted() {
    let memory = Memory::new();
    let all = [(4 * MIB, 8 * MIB), (2 * MIB, 6 * MIB)];
    let mut table = with_pages(&memory, PLAIN_KERNEL, &all);
    let mut root = Reserve::new();
    memory.supply::<Granule4K>(&mut root, 1);
    let mut there: Table<'_, Granule4K> = PageTable::offline(&memory, shape(), PLAIN_KERNEL, &mut root).unwrap();
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let before = leaves(&table);
    let mut plan = table.plan_copy(ranges(&all), read_only()).unwrap();
    memory.supply::<Granule4K>(&mut reserve, plan.tables());
    plan.apply(&mut there, &mut reserve, &mut gather, |_, _, _, _| {}).unwrap();
    let _ = gather.finish(&memory);
    let places = |table: &Table<'_, Granule4K>| leaves(table).iter().map(|leaf| leaf.0).collect::<Vec<_>>();
    assert_eq!(places(&there), before.iter().map(|leaf| leaf.0).collect::<Vec<_>>());
}

/// A range whose tables were counted takes the loads that say whether leaves lie across its ends alone: four levels each.
#[test]
fn what_was_counted_is_not_walked_again() {
    let memory = Memory::new();
    let machine = Counting(&memory, Cell::new(0));
    let all: Vec<_> = (0..8).map(|number| (4 * number * PAGE, (4 * number + 1) * PAGE)).collect();
    let made = with_pages(&memory, PLAIN_KERNEL, &all);
    let mut table = made.over(&machine);
    let mut loads = |count: usize| {
        machine.1.set(0);
        let licence = Licence::break_before_make(&());
        let edit = CopyEdit { licence: Some(&licence), ..read_only() };
        assert_eq!(table.plan_copy(ranges(&all[..count]), edit).unwrap().tables(), 3);
        machine.1.get()
    };
    let first = loads(1);
    assert_eq!(loads(8), first + 7 * 8);
}
