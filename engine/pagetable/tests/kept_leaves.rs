//! Kept blocks of which no bit would be left.

mod common;

use common::{MIB, PLAIN_KERNEL, change, live};
use pagetable::{Change, Licence, Memory, Reserve};
use vmsa::{Granule4K, Layout, LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

fn hidden_block_at_zero(
    memory: &Memory,
    attributes: Stage1Attributes,
    largest: LeafSize,
) -> common::Table<'_, Granule4K> {
    let from = range(0, 2 * MIB);
    let setup = [Change::Map { from: from.clone(), to: PhysAddr::new(0), attributes, largest }];
    let mut table = live(memory, (39, Layout::Bits48), PLAIN_KERNEL, &setup);
    let _ = change(&mut table, memory, &[Change::Hide { from }], None);
    table
}

/// A kept leaf that an edit leaves no bit of is refused, or still a kept leaf.
#[test]
fn a_kept_block_does_not_become_a_hole_by_ageing() {
    let memory = Memory::new();
    let mut table = hidden_block_at_zero(&memory, Stage1Attributes::AF, LeafSize::LARGEST);
    if let Ok(plan) = table.plan(&[Change::Age { from: range(0, 2 * MIB) }], None) {
        let mut gather = plan.gather();
        plan.with(&mut Reserve::new()).unwrap().apply(&mut gather);
        let _ = gather.finish(&memory);
    }
    assert!(table.plan(&[Change::Show { from: range(0, 2 * MIB) }], None).is_ok(), "the kept block is lost");
}

/// Nor by folding.
#[test]
fn kept_pages_do_not_become_a_hole_by_folding() {
    let memory = Memory::new();
    let mut table = hidden_block_at_zero(&memory, Stage1Attributes::empty(), LeafSize::PAGE);
    let _ = change(
        &mut table,
        &memory,
        &[Change::Collapse { from: range(0, 2 * MIB) }],
        Some(&Licence::break_before_make(&())),
    );
    assert!(table.plan(&[Change::Show { from: range(0, 2 * MIB) }], None).is_ok(), "the kept pages are lost");
}
