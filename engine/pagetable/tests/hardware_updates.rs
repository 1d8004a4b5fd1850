//! The access flag and the dirty state are two facts. Where hardware manages the access flag alone (HA = 1, HD = 0), DBM means
//! nothing, and what forbids writing forbids it: no leaf gets the right to write from a neighbour.

use crate::common;

use common::guest::{GUEST, guest_memory, range, shape};
use common::{DATA, KERNEL, MIB, Table, change, each_licence, leaves, live, live_at};
use vellum_pagetable::{Change, El1, HardwareUpdates, Licence, Memory, Platform, Reserve, Slot, Stage2};
use vellum_vmsa::{Descriptor, Granule4K, Layout, LeafSize, PhysAddr, Stage1Attributes, Stage2Attributes, VirtAddr};

const AT: u64 = 2 * MIB;
const PAGE: u64 = 0x1000;
const READ_ONLY: u64 = Stage1Attributes::READ_ONLY.bits();
const WRITE: u64 = Stage2Attributes::WRITE.bits();

fn page(number: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(AT + number * PAGE)..VirtAddr::new(AT + (number + 1) * PAGE)
}

/// 512 pages with DBM that forbid writing, but for those that are writable.
fn dbm_pages(writable: &[u64]) -> Vec<Change<El1>> {
    let attributes = DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    let from = VirtAddr::new(AT)..VirtAddr::new(AT + 2 * MIB);
    let map = Change::Map { from, to: PhysAddr::new(AT), attributes, largest: LeafSize::PAGE };
    let (set, clear) = (Stage1Attributes::empty(), Stage1Attributes::READ_ONLY);
    let protect = writable.iter().map(|&number| Change::Protect { from: page(number), set, clear });
    [map].into_iter().chain(protect).collect()
}

fn each_change<'m>(memory: &'m Memory, regime: El1, changes: &[Change<El1>]) -> Table<'m, Granule4K> {
    let mut table = live(memory, (39, Layout::Bits48), regime, &[]);
    for one in changes {
        change(&mut table, memory, std::slice::from_ref(one), None);
    }
    table
}

#[test]
fn a_fold_of_read_only_pages_is_read_only_where_dbm_means_nothing() {
    for hardware_updates in [HardwareUpdates::None, HardwareUpdates::AccessFlag] {
        each_licence(|licence| {
            let memory = Memory::default();
            let mut table = each_change(&memory, El1 { hardware_updates, ..KERNEL }, &dbm_pages(&[]));
            let fold = Change::Collapse { from: VirtAddr::new(AT)..VirtAddr::new(AT + 2 * MIB) };
            change(&mut table, &memory, &[fold], Some(licence));
            let [(_, bytes, leaf)] = leaves(&table)[..] else { panic!("no block") };
            assert_eq!((bytes, leaf.bits() & READ_ONLY), (2 * MIB, READ_ONLY), "{hardware_updates:?} {licence:?}");
        });
    }
}

#[test]
fn pages_that_may_be_written_and_pages_that_may_not_are_no_block_where_dbm_means_nothing() {
    for hardware_updates in [HardwareUpdates::None, HardwareUpdates::AccessFlag] {
        each_licence(|licence| {
            let memory = Memory::default();
            let mut table = each_change(&memory, El1 { hardware_updates, ..KERNEL }, &dbm_pages(&[7]));
            let fold = Change::Collapse { from: VirtAddr::new(AT)..VirtAddr::new(AT + 2 * MIB) };
            change(&mut table, &memory, &[fold], Some(licence));
            let writable = leaves(&table).into_iter().filter(|(_, _, leaf)| leaf.bits() & READ_ONLY == 0);
            assert_eq!(
                writable.map(|(_, bytes, _)| bytes).collect::<Vec<_>>(),
                [PAGE],
                "{hardware_updates:?} {licence:?}"
            );
        });
    }
}

/// Where hardware manages the dirty state, what may be written and what was written are one block that was written.
#[test]
fn pages_that_were_written_and_pages_that_may_be_are_one_block_where_hardware_says_so() {
    each_licence(|licence| {
        let memory = Memory::default();
        let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
        let mut table = each_change(&memory, regime, &dbm_pages(&[7]));
        let fold = Change::Collapse { from: VirtAddr::new(AT)..VirtAddr::new(AT + 2 * MIB) };
        change(&mut table, &memory, &[fold], Some(licence));
        let [(_, bytes, leaf)] = leaves(&table)[..] else { panic!("no block") };
        assert_eq!((bytes, leaf.bits() & READ_ONLY), (2 * MIB, 0), "{licence:?}");
    });
}

#[test]
fn a_fold_of_stage_2_grants_no_write_where_dbm_means_nothing() {
    for hardware_updates in [HardwareUpdates::None, HardwareUpdates::AccessFlag] {
        each_licence(|licence| {
            let memory = Memory::default();
            let attributes = guest_memory().difference(Stage2Attributes::WRITE) | Stage2Attributes::DBM;
            let (from, to) = (range(AT, 2 * MIB), PhysAddr::new(AT));
            let map = Change::Map { from: from.clone(), to, attributes, largest: LeafSize::PAGE };
            let regime = Stage2 { hardware_updates, ..GUEST };
            let mut table = live_at(&memory, shape(), regime, &[map]);
            change(&mut table, &memory, &[Change::Collapse { from }], Some(licence));
            let [(_, bytes, leaf)] = leaves(&table)[..] else { panic!("no block") };
            assert_eq!((bytes, leaf.bits() & WRITE), (2 * MIB, 0), "{hardware_updates:?} {licence:?}");
        });
    }
}

/// A group of which one member was made writable by others: dissolved, the right stays with the member.
#[test]
fn members_of_a_group_get_no_right_to_write_where_dbm_means_nothing() {
    for hardware_updates in [HardwareUpdates::None, HardwareUpdates::AccessFlag] {
        each_licence(|licence| {
            let memory = Memory::default();
            let attributes = DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
            let from = VirtAddr::new(AT)..VirtAddr::new(AT + 16 * PAGE);
            let map = Change::Map { from, to: PhysAddr::new(AT), attributes, largest: LeafSize::LARGEST };
            let mut table: Table<'_, Granule4K> =
                live(&memory, (39, Layout::Bits48), El1 { hardware_updates, ..KERNEL }, &[map]);
            let slot = table.view().path(VirtAddr::new(AT + PAGE)).last().unwrap().slot;
            memory.store(slot, Descriptor::new(memory.load(slot).bits() & !READ_ONLY));
            let split = Change::Split { at: VirtAddr::new(AT + 8 * PAGE) };
            change(&mut table, &memory, &[split], Some(licence));
            let writable = leaves(&table).into_iter().filter(|(_, _, leaf)| leaf.bits() & READ_ONLY == 0);
            assert_eq!(writable.count(), 1, "{hardware_updates:?} {licence:?}");
        });
    }
}

/// Where one leaf is: whether what is there is the leaf that a remap asks for is decided without the marks of hardware. A mark
/// between plan and apply neither is lost nor breaks a leaf that the plan had left alone.
#[test]
fn a_remap_to_what_is_there_leaves_the_marks_of_hardware() {
    let clean = DATA | Stage1Attributes::DBM | Stage1Attributes::READ_ONLY;
    let young = clean.difference(Stage1Attributes::AF);
    for size in LeafSize::all(vellum_vmsa::PageSize::Size4K, Layout::Bits48).filter(|size| size.level.number() > 1) {
        for attributes in [clean, young] {
            for mark in [Stage1Attributes::AF.bits(), READ_ONLY] {
                let memory = Memory::default();
                let from = VirtAddr::new(0)..VirtAddr::new(32 * MIB);
                let map = Change::Map { from: from.clone(), to: PhysAddr::new(0), attributes, largest: size };
                let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
                let mut table: Table<'_, Granule4K> = live(&memory, (39, Layout::Bits48), regime, &[map]);
                let slot = table.view().path(VirtAddr::new(0)).last().unwrap().slot;
                let remap = [Change::Remap { from, to: PhysAddr::new(0), attributes, largest: size }];
                let licence = Licence::break_before_make(&());
                let mut reserve = Reserve::new();
                let mut plan = table.plan(&remap, Some(&licence)).unwrap();
                let marked = mark_of(&memory, slot, mark);
                let _ = memory.take_steps();
                let mut gather = plan.gather();
                plan.apply(&mut reserve, &mut gather).unwrap();
                let _ = gather.finish(&memory);
                assert_eq!((memory.load(slot), memory.take_steps()), (marked, Vec::new()), "{size:?}");
            }
        }
    }
}

/// Hardware sets the access flag, or clears READ_ONLY.
fn mark_of(memory: &Memory, slot: Slot, mark: u64) -> Descriptor {
    let held = memory.load(slot).bits();
    let marked = Descriptor::new(if mark == READ_ONLY { held & !READ_ONLY } else { held | mark });
    memory.store(slot, marked);
    marked
}
