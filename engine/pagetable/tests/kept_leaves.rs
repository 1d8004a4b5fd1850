//! Kept blocks of which no bit would be left.

use crate::common;

use common::{DATA, GIB, MIB, PLAIN_KERNEL, change, each_licence, leaves, live, live_4k, map};
use vellum_pagetable::{Change, Licence, Memory, Platform, Refusal, Reserve};
use vellum_vmsa::{Descriptor, Granule4K, Layout, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

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

/// A table of kept pages is led elsewhere page by page, by every licence and by none; not where a page is valid, nor where the table has
/// limits of its own, by which they would mean less than asked.
#[test]
fn kept_pages_are_led_elsewhere_as_the_table_stands() {
    let from = range(0, 2 * MIB);
    let remap = Change::Remap { from, to: PhysAddr::new(1 << 36), attributes: DATA, largest: LeafSize::LARGEST };
    let attempt = |licence: Option<&Licence<'_>>, valid_page: Option<u64>, limits: u64| {
        let memory = Memory::new();
        let mut table = hidden_block_at_zero(&memory, DATA, LeafSize::PAGE);
        let above = table.view().path(VirtAddr::new(0)).find(|it| it.level == Level::L2).unwrap();
        memory.store(above.slot, Descriptor::new(above.descriptor.bits() | limits));
        if let Some(page) = valid_page {
            let _ = change(&mut table, &memory, &[Change::MakeValid { from: range(page, 0x1000) }], None);
        }
        let tables = table.plan(std::slice::from_ref(&remap), licence)?.tables_needed();
        let _ = change(&mut table, &memory, std::slice::from_ref(&remap), licence);
        let led = leaves(&table).iter().all(|(at, _, leaf)| leaf.bits() & 0xff_ffff_f001 == 1 << 36 | at | 1);
        Ok((tables, leaves(&table).len(), led))
    };
    assert_eq!(attempt(None, None, 0), Ok((0, 512, true)));
    each_licence(|licence| assert_eq!(attempt(Some(licence), None, 0), Ok((0, 512, true))));
    for (valid_page, limits) in [(Some(0), 0), (Some(0x1f_f000), 0), (None, 1 << 60)] {
        assert_eq!(attempt(None, valid_page, limits), Err(Refusal::NeedsLicence(0)));
        assert_eq!(attempt(Some(&Licence::break_before_make(&())), valid_page, limits), Ok((0, 1, true)));
    }
}

/// Nor where a table further down has limits.
#[test]
fn kept_pages_below_a_limited_table_are_not_led_elsewhere_as_they_stand() {
    let remap = [Change::Remap {
        from: range(0, GIB),
        to: PhysAddr::new(1 << 36),
        attributes: DATA,
        largest: LeafSize::LARGEST,
    }];
    let attempt = |licence: Option<&Licence<'_>>, limits: u64| {
        let memory = Memory::new();
        let block = LeafSize::single(Level::L2);
        let mapped = [map(0, 2 * MIB, 0, LeafSize::PAGE), map(2 * MIB, GIB - 2 * MIB, 2 * MIB, block)];
        let mut table = live_4k(&memory, &mapped);
        let _ = change(&mut table, &memory, &[Change::MakeInvalid { from: range(0, GIB) }], None);
        let above = table.view().path(VirtAddr::new(0)).find(|it| it.level == Level::L2).unwrap();
        memory.store(above.slot, Descriptor::new(above.descriptor.bits() | limits));
        let _ = table.plan(&remap, licence)?;
        let _ = change(&mut table, &memory, &remap, licence);
        Ok(leaves(&table).len())
    };
    assert_eq!(attempt(None, 0), Ok(512 + 511));
    assert_eq!(attempt(None, 1 << 60), Err(Refusal::NeedsLicence(0)));
    assert_eq!(attempt(Some(&Licence::break_before_make(&())), 1 << 60), Ok(1));
}
