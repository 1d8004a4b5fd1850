//! What stands at the first address, leads to the first address, or has no bit but those that make it what it is.

use crate::common;

use common::{
    DATA, KERNEL, MIB, PLAIN_KERNEL, change, each_licence, leaves, live, live_4k, map, offline, read_only, shape, unmap,
};
use vellum_pagetable::{Change, El1, HardwareUpdates, Memory, PageTable, Platform, Refusal, Reserve, Step};
use vellum_vmsa::{
    AddressHalf, Descriptor, Granule4K, Layout, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes, VirtAddr,
};

const PAGE: u64 = 0x1000;
const NONE: Stage1Attributes = Stage1Attributes::empty();

fn range(start: u64, bytes: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(start)..VirtAddr::new(start + bytes)
}

/// Blocks without an attribute.
fn bare(start: u64, bytes: u64, to: u64, largest: LeafSize) -> Change<El1> {
    Change::Map { from: range(start, bytes), to: PhysAddr::new(to), attributes: NONE, largest }
}

const BLOCK: LeafSize = LeafSize::single(Level::L2);

#[test]
fn a_block_that_is_but_valid_is_no_hole() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[bare(2 * MIB, 2 * MIB, 0, BLOCK)]);
    assert_eq!(leaves(&table), [(2 * MIB, 2 * MIB, Descriptor::new(1))]);
    let refused = table.plan(&[map(0, 4 * MIB, 64 * MIB, BLOCK)], None).unwrap_err();
    assert_eq!(refused, Refusal::AlreadyMapped(2 * MIB));
}

#[test]
fn what_could_not_be_told_from_a_hole_is_not_kept() {
    let memory = Memory::new();
    let setup = [bare(0, 2 * MIB, 64 * MIB, BLOCK), bare(2 * MIB, 2 * MIB, 0, BLOCK)];
    let mut table = live_4k(&memory, &setup);
    let before = memory.descriptors();
    for (start, bytes) in [(0, 4 * MIB), (2 * MIB, 2 * MIB)] {
        let refused = table.plan(&[Change::MakeInvalid { from: range(start, bytes) }], None).unwrap_err();
        assert_eq!(refused, Refusal::NotKeepable(2 * MIB));
    }
    assert_eq!(memory.descriptors(), before);
    change(&mut table, &memory, &[Change::MakeInvalid { from: range(0, 2 * MIB) }], None);
    change(&mut table, &memory, &[Change::MakeValid { from: range(0, 4 * MIB) }], None);
    assert_eq!(memory.descriptors(), before);
}

/// A group of kept blocks, as others write it, of which the first has no bit but Contiguous.
#[test]
fn a_kept_group_does_not_become_a_hole() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[bare(0, 32 * MIB, 0, BLOCK)]);
    let first = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
    for number in 0..16 {
        let slot = vellum_pagetable::Slot::new(first.address(), number);
        memory.store(slot, Descriptor::new((number as u64 * 2 * MIB) | Descriptor::CONTIGUOUS));
    }
    let refused = table.plan(&[Change::Split { at: VirtAddr::new(2 * MIB) }], None).unwrap_err();
    assert_eq!(refused, Refusal::NotKeepable(0));
    memory.store(first, Descriptor::new(1 << 55 | Descriptor::CONTIGUOUS));
    assert!(table.plan(&[Change::Split { at: VirtAddr::new(2 * MIB) }], None).is_ok());
}

/// A live group at address 0 changes with a licence alone, be it the first of a longer range.
#[test]
fn a_group_at_the_first_address_is_met_as_one() {
    let memory = Memory::new();
    let setup = [map(0, 0x1_0000, 64 * MIB, LeafSize::group(Level::L3)), map(0x1_0000, PAGE, 70 * MIB, LeafSize::PAGE)];
    let mut table = live_4k(&memory, &setup);
    let refused = table.plan(&[read_only(0, 0x1_1000)], None).unwrap_err();
    assert_eq!(refused, Refusal::NeedsLicence(0));
}

/// A kept group stays kept, and a group, whatever else of it changes.
#[test]
fn a_kept_group_stays_kept() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, 0x1_0000, 64 * MIB, LeafSize::group(Level::L3))]);
    let group = leaves(&table);
    change(&mut table, &memory, &[Change::MakeInvalid { from: range(0, 0x1_0000) }], None);
    let (steps, _) = change(&mut table, &memory, &[read_only(0, 0x1_0000)], None);
    let stored = steps.iter().filter_map(|step| if let Step::Store(_, new) = step { Some(*new) } else { None });
    let edited = group.iter().map(|(.., leaf)| Descriptor::new(leaf.bits() & !1 | 1 << 7));
    assert!(stored.eq(edited), "{steps:x?}");
    assert_eq!(leaves(&table), []);
}

/// No attribute is a bit of the type, and none of shareability hides one.
#[test]
fn bits_of_the_type_are_no_attributes() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, PAGE, 64 * MIB, LeafSize::PAGE)]);
    for bit in [0, 1, 20, 47, 52] {
        let named = Stage1Attributes::from_bits_retain(1 << bit);
        for (set, clear) in [(named, NONE), (NONE, named)] {
            let refused = table.plan(&[Change::Protect { from: range(0, PAGE), set, clear }], None).unwrap_err();
            assert_eq!(refused, Refusal::NotAttributes(1 << bit));
        }
    }
}

#[test]
fn an_output_address_is_the_start_of_a_page() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[]);
    for off in [1, 2, 0x800] {
        let refused = table.plan(&[map(0, PAGE, 64 * MIB + off, LeafSize::PAGE)], None).unwrap_err();
        assert_eq!(refused, Refusal::MisalignedOutput(PhysAddr::new(64 * MIB + off)));
    }
}

/// 512 GiB are no leaf of 4 KiB pages with 48 bits, however aligned.
#[test]
fn no_leaf_stands_where_the_layout_has_none() {
    let memory = Memory::new();
    let mut table = offline::<Granule4K>(&memory, 48, Layout::Bits48);
    change(&mut table, &memory, &[map(0, 1 << 39, 0, LeafSize::LARGEST)], None);
    let leaves = leaves(&table);
    assert!(leaves.len() == 512 && leaves.iter().all(|(_, bytes, leaf)| *bytes == 1 << 30 && leaf.is_contiguous()));
}

/// A run of every length up to two rounds of comparisons, and no slot more.
#[test]
fn a_run_of_any_length_is_all_that_is_asked_for() {
    for count in 1..=33 {
        let memory = Memory::new();
        let mut table = live_4k(&memory, &[map(0, PAGE, 64 * MIB, LeafSize::PAGE)]);
        change(&mut table, &memory, &[map(PAGE, count * PAGE, 65 * MIB, LeafSize::PAGE)], None);
        assert_eq!(leaves(&table).len() as u64, count + 1);
        change(&mut table, &memory, &[unmap(PAGE, count * PAGE)], None);
        assert_eq!(leaves(&table).len(), 1);
    }
}

/// Nothing is ordered or forgotten of tables that no hardware walks, whatever the licence is, and nothing needs a break there.
#[test]
fn nothing_is_maintained_offline() {
    each_licence(|licence| {
        let memory = Memory::new();
        let setup = [map(0, 4 * MIB, 64 * MIB, LeafSize::LARGEST), map(4 * MIB, 2 * MIB, 128 * MIB, LeafSize::PAGE)];
        let mut table = offline::<Granule4K>(&memory, 39, Layout::Bits48);
        change(&mut table, &memory, &setup, None);
        for wanted in [
            read_only(PAGE, PAGE),
            remap(3 * MIB, PAGE, 256 * MIB),
            remap(4 * MIB, 2 * MIB, 512 * MIB),
            Change::SplitToPages { from: range(0, 4 * MIB) },
            Change::Protect { from: range(0, MIB), set: Stage1Attributes::memory(1), clear: NONE },
            Change::Collapse { from: range(0, 8 * MIB) },
            unmap(0, 8 * MIB),
        ] {
            let (steps, _) = change(&mut table, &memory, std::slice::from_ref(&wanted), Some(licence));
            assert!(!steps.iter().any(|step| matches!(step, Step::Maintain(_))), "{wanted:?} {steps:?}");
        }
        assert_eq!(leaves(&table), []);
    });
}

fn remap(start: u64, bytes: u64, to: u64) -> Change<El1> {
    let to = PhysAddr::new(to);
    Change::Remap { from: range(start, bytes), to, attributes: DATA, largest: LeafSize::LARGEST }
}

/// Tables that others made live are live.
#[test]
fn a_page_table_that_is_taken_over_is_live() {
    let memory = Memory::new();
    let root = live_4k(&memory, &[map(0, PAGE, 64 * MIB, LeafSize::PAGE)]).root();
    let geometry = shape::<Granule4K>(39, AddressHalf::Lower);
    let mut table = PageTable::live(&memory, geometry, KERNEL, root).unwrap();
    let (steps, _) = change(&mut table, &memory, &[read_only(0, PAGE)], None);
    assert_eq!(steps.len(), 5, "store, DSB, TLBI, DSB, ISB: {steps:?}");
    assert!(matches!(steps[1..], [Step::Maintain(Maintenance::DSB_ISHST), _, _, Step::Maintain(Maintenance::ISB)]));
}

/// A plan that takes one table is refused without it, takes it, and has nothing left to do.
#[test]
fn a_plan_is_applied_once() {
    let memory = Memory::new();
    let mut table = live_4k(&memory, &[map(0, PAGE, 64 * MIB, LeafSize::PAGE)]);
    let wanted = [map(2 * MIB, PAGE, 65 * MIB, LeafSize::PAGE)];
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    let mut plan = table.plan(&wanted, None).unwrap();
    assert_eq!(plan.tables_needed(), 1);
    assert_eq!(plan.apply(&mut reserve, &mut gather), Err(Refusal::ReserveShortBy(1)));
    memory.supply::<Granule4K>(&mut reserve, 2);
    let _ = memory.take_steps();
    plan.apply(&mut reserve, &mut gather).unwrap();
    let stored = memory.take_steps();
    assert_eq!((plan.tables_needed(), reserve.count()), (0, 1));
    plan.apply(&mut reserve, &mut gather).unwrap();
    assert_eq!((memory.take_steps(), plan.tables_needed(), reserve.count()), (vec![], 0, 1));
    assert!(!stored.is_empty());
    let _ = gather.finish(&memory);
}

/// Without TLBIs by range 512 leaves are forgotten one by one, and 513 with everything else.
#[test]
fn so_many_leaves_are_forgotten_one_by_one() {
    for (pages, issued) in [(1, 1), (511, 511), (512, 512), (513, 1)] {
        let memory = Memory::new();
        let mut table = live::<Granule4K, _>(
            &memory,
            (39, Layout::Bits48),
            PLAIN_KERNEL,
            &[map(0, 4 * MIB, 64 * MIB, LeafSize::PAGE)],
        );
        let (mut reserve, mut gather) = (Reserve::new(), table.gather());
        let wanted = [read_only(0, pages * PAGE)];
        table.plan(&wanted, None).unwrap().apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(&memory);
        assert_eq!(gather.issued(), issued, "{pages} pages");
    }
}

/// A mark of the last leaf of a table counts where others of the same content stand in a table of their own before.
#[test]
fn marks_behind_a_table_are_folded_in() {
    let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
    for marked in [1, 15, 16, 17, 496, 510, 511] {
        let memory = Memory::new();
        let mut reserve = Reserve::new();
        memory.supply::<Granule4K>(&mut reserve, 1);
        let geometry = shape::<Granule4K>(39, AddressHalf::Lower);
        let mut table = PageTable::offline(&memory, geometry, regime, &mut reserve).unwrap();
        let attributes = Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
        let map = |at: u64, bytes, largest| Change::Map {
            from: range(at, bytes),
            to: PhysAddr::new(at),
            attributes,
            largest,
        };
        let setup = [map(0, 2 * MIB, LeafSize::PAGE), map(2 * MIB, 1022 * MIB, BLOCK)];
        change(&mut table, &memory, &setup, None);
        let leaf = table.view().path(VirtAddr::new(marked * 2 * MIB)).last().unwrap();
        memory.store(leaf.slot, Descriptor::new(leaf.descriptor.bits() & !(1 << 7) | 1 << 10));
        change(&mut table, &memory, &[Change::Collapse { from: range(0, 1 << 30) }], None);
        let marks = leaves(&table)
            .iter()
            .map(|(_, bytes, leaf)| (*bytes, leaf.bits() & (1 << 7 | 1 << 10)))
            .collect::<Vec<_>>();
        assert_eq!(marks, [(1 << 30, 1 << 10)], "leaf {marked}");
    }
}
