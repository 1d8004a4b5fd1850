//! Kept blocks of which no bit would be left.

use crate::common;

use common::{MIB, PLAIN_KERNEL, change, live};
use vellum_pagetable::{Change, Licence, Memory, Refusal, Reserve};
use vellum_vmsa::{Granule4K, Layout, LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

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
    let _ = change(&mut table, memory, &[Change::MakeInvalid { from }], None);
    table
}

/// A kept leaf that an edit leaves no bit of is refused, or still a kept leaf.
#[test]
fn a_kept_block_does_not_become_a_hole_by_ageing() {
    let memory = Memory::new();
    let mut table = hidden_block_at_zero(&memory, Stage1Attributes::AF, LeafSize::LARGEST);
    if let Ok(mut plan) = table.plan(&[Change::Age { from: range(0, 2 * MIB) }], None) {
        let mut gather = plan.gather();
        plan.apply(&mut Reserve::new(), &mut gather).unwrap();
        let _ = gather.finish(&memory);
    }
    assert!(table.plan(&[Change::MakeValid { from: range(0, 2 * MIB) }], None).is_ok(), "the kept block is lost");
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
    assert!(table.plan(&[Change::MakeValid { from: range(0, 2 * MIB) }], None).is_ok(), "the kept pages are lost");
}

/// A part that would be a leaf of its own and have no bit left is not hidden, in a block and in a contiguous group.
#[test]
fn a_part_that_would_be_a_hole_is_not_hidden() {
    const GIB: u64 = 1 << 30;
    for bytes in [32 * MIB, GIB] {
        let memory = Memory::new();
        let attributes = Stage1Attributes::empty();
        let setup =
            [Change::Map { from: range(0, bytes), to: PhysAddr::new(0), attributes, largest: LeafSize::LARGEST }];
        let mut table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), PLAIN_KERNEL, &setup);
        let licence = Licence::break_before_make(&());
        let hidden = table.plan(&[Change::MakeInvalid { from: range(0, 2 * MIB) }], Some(&licence)).map(|_| ());
        assert_eq!(hidden, Err(Refusal::NotKeepable(0)), "{bytes:#x} bytes");
    }
}
