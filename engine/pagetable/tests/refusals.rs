//! Every refusal, and what a view reads.

use crate::common;

use common::{GIB, KERNEL, MIB, map, read_only, shape, unmap};
use expect_test::{Expect, expect};
use vellum_pagetable::{Change, El1, Memory, PageTable, Platform, Reserve, Slot};
use vellum_vmsa::{AddressHalf, Descriptor, Granule4K, Layout, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

type Table<'m> = PageTable<'m, Granule4K, El1, Memory>;

/// Makes changes that cannot be refused.
fn change(table: &mut Table<'_>, memory: &Memory, changes: &[Change<El1>]) {
    let mut reserve = Reserve::new();
    let mut gather = table.gather();
    let mut plan = table.plan(changes, None).unwrap();
    memory.supply::<Granule4K>(&mut reserve, plan.tables_needed());
    plan.apply(&mut reserve, &mut gather).unwrap();
    assert_eq!(gather.finish(memory).count(), 0);
}

#[test]
fn what_cannot_be_is_refused_before_the_first_store() {
    let refused = |wanted: &[Change<El1>], expected: Expect| {
        let memory = Memory::default();
        let mut reserve = Reserve::new();
        memory.supply::<Granule4K>(&mut reserve, 1);
        let geometry = shape(39, AddressHalf::Lower);
        let mut table = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).unwrap();
        let setup = [map(0, 2 * MIB, GIB, LeafSize::LARGEST), map(2 * MIB, 0x1_0000, GIB, LeafSize::LARGEST)];
        change(&mut table, &memory, &setup);
        let mut table = table.publish();
        let _ = memory.take_steps();
        let refusal = table.plan(wanted, None).map(|plan| plan.tables_needed()).unwrap_err();
        assert_eq!(memory.take_steps(), []);
        expected.assert_eq(&refusal.to_string());
    };
    refused(&[map(0x1000, 0x1000, 0, LeafSize::PAGE)], expect!["0x1000 is mapped already"]);
    refused(
        &[map(8 * MIB, 0x1000, 0, LeafSize::PAGE), map(0, 0x1000, 0, LeafSize::PAGE)],
        expect!["0x0 is mapped already"],
    );
    refused(
        &[map(8 * MIB, 0x2000, 0, LeafSize::PAGE), map(8 * MIB + 0x1000, 0x1000, 0, LeafSize::PAGE)],
        expect!["two changes of one list meet at 0x801000"],
    );
    refused(&[map(8 * MIB, 0x800, 0, LeafSize::PAGE)], expect!["0x800800 is not the start of a page"]);
    refused(&[map(8 * MIB, 0x1000, 0x800, LeafSize::PAGE)], expect!["output address 0x800 is not the start of a page"]);
    refused(
        &[map(8 * MIB, 0x1000, 1 << 48, LeafSize::PAGE)],
        expect!["output address 0x1000000000000 has more bits than a descriptor holds"],
    );
    refused(
        &[map(8 * MIB, 0x2000, (1 << 48) - 0x1000, LeafSize::PAGE)],
        expect!["output address 0xfffffffff000 has more bits than a descriptor holds"],
    );
    refused(
        &[map(1 << 39, 0x1000, 0, LeafSize::PAGE)],
        expect!["0x8000000000 is outside the page table's input addresses"],
    );
    refused(&[unmap((1 << 39) - 0x1000, 0x2000)], expect!["0x8000000000 is outside the page table's input addresses"]);
    let backward = VirtAddr::new(0x5000)..VirtAddr::new(0x4000);
    refused(&[Change::Unmap { from: backward }], expect!["the range ends at 0x4000, before it starts"]);
    let from_the_end = VirtAddr::new(0x5000)..VirtAddr::new(0);
    refused(
        &[Change::Unmap { from: from_the_end }],
        expect!["0x8000000000 is outside the page table's input addresses"],
    );
    refused(&[read_only(0x1000, 0x1000)], expect!["the live leaf at 0x1000 may not change without a licence"]);
    refused(&[read_only(2 * MIB, 0x1_0000)], expect!["the live leaf at 0x200000 may not change without a licence"]);
    refused(&[read_only(2 * MIB + 0x1_0000, 0x1000)], expect!["0x210000 is not mapped"]);
    refused(&[unmap(0x1000, 0x1000)], expect!["the live leaf at 0x1000 may not change without a licence"]);
    refused(
        &[Change::Split { at: VirtAddr::new(2 * MIB + 0x1000) }],
        expect!["the live leaf at 0x201000 may not change without a licence"],
    );
    let bits = Stage1Attributes::from_bits_retain(Descriptor::CONTIGUOUS | 1 << 20);
    let from = VirtAddr::new(8 * MIB)..VirtAddr::new(9 * MIB);
    refused(
        &[Change::Protect { from, set: bits, clear: Stage1Attributes::empty() }],
        expect!["0x10000000100000 are no attribute bits"],
    );
}

#[test]
fn a_reserve_that_is_too_small_is_refused_before_the_first_store() {
    let memory = Memory::default();
    let mut table = common::offline::<Granule4K>(&memory, 48, Layout::Bits48);
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 2);
    let _ = memory.take_steps();
    let changes = [map(0, 0x1000, 0, LeafSize::PAGE)];
    let mut gather = table.gather();
    let refusal = table.plan(&changes, None).unwrap().apply(&mut reserve, &mut gather).unwrap_err();
    expect!["the reserve lacks 1 table"].assert_eq(&refusal.to_string());
    assert_eq!((memory.take_steps(), reserve.count()), (vec![], 2));
}

#[test]
fn a_hole_with_anything_in_it_is_not_mapped_over() {
    let memory = Memory::default();
    let mut table = common::offline::<Granule4K>(&memory, 39, Layout::Bits48);
    memory.store(Slot::new(table.root(), 3), Descriptor::new(0xfff0));
    let changes = [map(3 * GIB, GIB, GIB, LeafSize::LARGEST)];
    let refusal = table.plan(&changes, None).map(|plan| plan.tables_needed()).unwrap_err();
    expect!["0xc0000000 is mapped already"].assert_eq(&refusal.to_string());
}

#[test]
fn translations_are_exact_to_the_byte_and_paths_tell_every_level() {
    let memory = Memory::default();
    let mut table = common::offline::<Granule4K>(&memory, 48, Layout::Bits48);
    change(&mut table, &memory, &[map(GIB, 4 * MIB, 5 * GIB, LeafSize::LARGEST)]);
    let view = table.view();
    let translation = view.translate(VirtAddr::new(GIB + 0x21_2345)).unwrap();
    assert_eq!(translation.output, PhysAddr::new(5 * GIB + 0x21_2345));
    assert_eq!(translation.size, LeafSize::single(Level::L2));
    assert_eq!(view.translate(VirtAddr::new(GIB + 4 * MIB)), None);
    assert_eq!(view.translate(VirtAddr::new(1 << 48)), None);
    let levels: Vec<_> = view.path(VirtAddr::new(GIB)).map(|lookup| lookup.level.number()).collect();
    assert_eq!(levels, [0, 1, 2]);
    assert_eq!(view.path(VirtAddr::new(!0)).count(), 0);
    assert!(memory.load(Slot::new(table.root(), 0)).is_table(Level::L0));
}
