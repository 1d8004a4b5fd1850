//! Thousands of scattered pages in one gather: TLBIs one by one up to a number, then one of everything.

use crate::common;

use common::walkers::{Beside, Walkers};
use common::{KERNEL, MIB, live_4k, map, unmap};
use vellum_pagetable::{Memory, Reserve, Step};
use vellum_vmsa::{LeafSize, Maintenance, TlbiOp};

/// TLBIs that one gather issues one by one.
const SINGLE: usize = 512;
/// Every third page is unmapped, so that no range joins the next.
const STRIDE: u64 = 0x3000;

/// The TLBIs of unmapping `count` pages: by one list, or each by a plan of its own.
fn unmap_scattered(count: u64, is_list: bool) -> Vec<TlbiOp> {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, (count * STRIDE).next_multiple_of(2 * MIB), 0, LeafSize::PAGE)]);
    assert_eq!(table.regime(), KERNEL);
    let mut walkers = Walkers::of(&table, &memory, Beside::InPlace);
    let changes: Vec<_> = (0..count).map(|number| unmap(number * STRIDE, 0x1000)).collect();
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    for list in changes.chunks(if is_list { changes.len() } else { 1 }) {
        table.plan(list, None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    }
    reserve.refill(&memory, gather.finish(&memory));
    let steps = memory.take_steps();
    walkers.follow(&steps);
    walkers.check();
    let tlbis: Vec<_> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Maintain(Maintenance::Invalidate(op, _)) => Some(*op),
            _ => None,
        })
        .collect();
    assert_eq!(gather.issued(), tlbis.len());
    tlbis
}

#[test]
fn a_long_list_of_scattered_pages_takes_one_tlbi_of_everything() {
    assert_eq!(unmap_scattered(10_000, true), [TlbiOp::VMALLE1IS]);
}

#[test]
fn many_plans_of_scattered_pages_end_with_one_tlbi_of_everything() {
    let tlbis = unmap_scattered(10_000, false);
    assert_eq!(tlbis.len(), SINGLE + 1);
    assert!(tlbis[..SINGLE].iter().all(|&op| op == TlbiOp::VAALE1IS));
    assert_eq!(tlbis[SINGLE], TlbiOp::VMALLE1IS);
}

#[test]
fn a_list_that_is_worth_it_takes_a_tlbi_for_each_page() {
    let tlbis = unmap_scattered(SINGLE as u64, true);
    assert_eq!(tlbis, [TlbiOp::VAALE1IS; SINGLE]);
}

/// A list that finds nothing to change has nothing forgotten, and leaves the next its TLBIs.
#[test]
fn a_long_list_that_changes_nothing_costs_the_next_nothing() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 2 * MIB, 0, LeafSize::PAGE)]);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let holes: Vec<_> = (0..=SINGLE as u64).map(|number| unmap(4 * MIB + number * STRIDE, 0x1000)).collect();
    table.plan(&holes, None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    reserve.refill(&memory, gather.finish(&memory));
    for number in 0..10 {
        let change = [unmap(number * STRIDE, 0x1000)];
        table.plan(&change, None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    }
    let _ = memory.take_steps();
    reserve.refill(&memory, gather.finish(&memory));
    let is_everything = |step: &Step| matches!(step, Step::Maintain(Maintenance::Invalidate(TlbiOp::VMALLE1IS, _)));
    assert!(!memory.take_steps().iter().any(is_everything));
}
