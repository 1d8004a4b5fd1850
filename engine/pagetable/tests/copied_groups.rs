//! Contiguous groups that a copy edits: in place where every CPU tolerates that, broken before they are made again elsewhere, and what
//! hardware marks meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use vellum_pagetable::{
    Census, Change, CopyEdit, El1, HardwareUpdates, Licence, Memory, PageTable, Platform, Refusal, Reserve, Slot, Step,
    Tolerance,
};
use vellum_vmsa::{
    AddressHalf, BbmLevel, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, LeafSize, Level,
    Maintenance, PhysAddr, Stage1Attributes, VirtAddr,
};

use crate::common::walkers::{Beside, Walkers};
use crate::common::{GIB, KERNEL, MIB, PLAIN_KERNEL, Table, change, each_licence, leaves, live_at, map, read_only};

const NONE: Stage1Attributes = Stage1Attributes::empty();
const READ_ONLY: Stage1Attributes = Stage1Attributes::READ_ONLY;

fn range(start: u64, end: u64) -> Range<VirtAddr> {
    VirtAddr::new(start)..VirtAddr::new(end)
}

fn shape<G: Granule>() -> Geometry<G> {
    crate::common::shape(48, AddressHalf::Lower)
}

fn empty<'m, G: Granule>(memory: &'m Memory, regime: El1) -> Table<'m, G> {
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, 1);
    PageTable::offline(memory, shape(), regime, &mut reserve).unwrap()
}

/// Where each leaf's descriptor stands, and what it is.
fn slots<G: Granule>(table: &Table<'_, G>) -> Vec<(Slot, Descriptor)> {
    let slot = |start| table.view().path(VirtAddr::new(start)).last().unwrap();
    leaves(table).into_iter().map(|(start, ..)| (slot(start).slot, slot(start).descriptor)).collect()
}

/// In one table: a group, one that may not be written, a hole, a leaf by itself, two groups.
fn with_groups<'m, G: Granule>(memory: &'m Memory, regime: El1, level: Level) -> (Table<'m, G>, u64) {
    let (group, single) = (LeafSize::group(level), LeafSize::single(level));
    let bytes = group.size_bytes(G::PAGE_SIZE);
    let to = |at: u64| (1 << 46) + at;
    let mut table = live_at(memory, shape::<G>(), regime, &[map(0, 2 * bytes, to(0), group)]);
    change(&mut table, memory, &[read_only(bytes, bytes)], Some(&Licence::break_before_make(&())));
    let more = [
        map(3 * bytes, single.size_bytes(G::PAGE_SIZE), to(3 * bytes), single),
        map(4 * bytes, 2 * bytes, to(4 * bytes), group),
    ];
    change(&mut table, memory, &more, None);
    let _ = memory.take_steps();
    (table, bytes)
}

/// What is stored in each slot, with the number of the step.
fn stores(steps: &[Step]) -> BTreeMap<Slot, Vec<(usize, Descriptor)>> {
    let mut stores: BTreeMap<Slot, Vec<(usize, Descriptor)>> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        if let Step::Store(slot, new) = *step {
            stores.entry(slot).or_default().push((number, new));
        }
    }
    stores
}

/// All that these steps issue, in order, TLBIs side by side as one.
fn operations(steps: &[Step]) -> Vec<Maintenance> {
    let mut all: Vec<Maintenance> = steps
        .iter()
        .filter_map(|step| match *step {
            Step::Maintain(Maintenance::Invalidate(operation, _)) => Some(Maintenance::Invalidate(operation, 0)),
            Step::Maintain(operation) => Some(operation),
            _ => None,
        })
        .collect();
    all.dedup();
    all
}

fn copies_groups<G: Granule>(level: Level, regime: El1, (licence, beside): (&Licence<'_>, Beside)) {
    let memory = Memory::new();
    let (mut table, bytes) = with_groups::<G>(&memory, regime, level);
    let mut there = empty::<G>(&memory, regime);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    memory.supply::<G>(&mut reserve, 4);
    let mut walkers = Walkers::of(&table, &memory, beside);
    let before = slots(&table);
    let _ = memory.take_steps();
    let edit = CopyEdit { set: READ_ONLY, clear: NONE, licence: Some(licence) };
    let mut told = Vec::new();
    let each = |to: PhysAddr, leaf: Descriptor, size: LeafSize, count: usize| {
        let steps = (0..count as u64).map(|number| number * size.size_bytes(G::PAGE_SIZE));
        told.extend(steps.map(|step| (to.bits() + step, leaf.bits() + step)));
    };
    table.copy_to(&mut there, range(0, 6 * bytes), edit, &mut reserve, &mut gather, each).unwrap();
    let steps = memory.take_steps();
    let _ = gather.finish(&memory);
    let finish = memory.take_steps();

    let edited: Vec<_> = before.iter().map(|(_, leaf)| leaf.bits() | READ_ONLY.bits()).collect();
    let bits = |table: &Table<'_, G>| slots(table).iter().map(|(_, leaf)| leaf.bits()).collect::<Vec<_>>();
    assert_eq!((bits(&table), bits(&there)), (edited.clone(), edited.clone()));
    let outputs = leaves(&there).into_iter().map(|(at, ..)| (1 << 46) + at);
    assert_eq!(told, outputs.zip(edited).collect::<Vec<_>>());

    let (stored, is_in_place) = (stores(&steps), licence.is_in_place());
    for (slot, leaf) in &before {
        let expected = match Descriptor::new(leaf.bits() | READ_ONLY.bits()) {
            edited if edited == *leaf => vec![],
            edited if is_in_place || !leaf.is_contiguous() => vec![edited],
            edited if regime.hardware_updates == HardwareUpdates::None => vec![Descriptor::INVALID, edited],
            // What hardware has marked stays.
            edited => vec![Descriptor::new(leaf.bits() & !Descriptor::VALID), edited],
        };
        let found: Vec<_> = stored.get(slot).into_iter().flatten().map(|(_, new)| *new).collect();
        assert_eq!(found, expected, "{licence:?} {level:?} {leaf:?}");
    }
    let ends = [Maintenance::DSB_ISHST, Maintenance::DSB_ISH, Maintenance::ISB];
    let barriers = |steps: &[Step]| {
        let mut all = operations(steps);
        all.retain(|it| !matches!(it, Maintenance::Invalidate(..)));
        all
    };
    if is_in_place {
        assert_eq!((barriers(&steps), barriers(&finish)), (vec![], ends.to_vec()));
    } else {
        // All groups at once; at the end nothing is left but to make the new leaves visible.
        assert_eq!((barriers(&steps), operations(&finish)), (ends.to_vec(), vec![ends[0], ends[2]]));
        let ended = steps.iter().position(|step| *step == Step::Maintain(Maintenance::DSB_ISH)).unwrap();
        let begun = steps.iter().position(|step| *step == Step::Maintain(Maintenance::DSB_ISHST)).unwrap();
        let pairs =
            before.iter().filter_map(|(slot, _)| stored.get(slot)).filter_map(|all| <[_; 2]>::try_from(&all[..]).ok());
        assert!(pairs.into_iter().all(|[(first, _), (second, _)]| first < begun && ended < second));
    }
    walkers.follow(&[steps, finish].concat());
    walkers.check();
}

#[test]
fn groups_of_every_shape_are_copied_by_each_licence() {
    each_licence(|licence| {
        let beside = match (licence.is_in_place(), format!("{licence:?}").contains("true")) {
            (false, _) => Beside::InPlace,
            (true, true) => Beside::Groups,
            (true, false) => Beside::Anything,
        };
        for regime in [KERNEL, PLAIN_KERNEL] {
            for level in [Level::L3, Level::L2, Level::L1] {
                copies_groups::<Granule4K>(level, regime, (licence, beside));
            }
            for level in [Level::L3, Level::L2] {
                copies_groups::<Granule16K>(level, regime, (licence, beside));
                copies_groups::<Granule64K>(level, regime, (licence, beside));
            }
        }
    });
}

#[test]
fn what_stands_in_the_way_of_a_copy_of_groups_changes_nothing() {
    each_licence(|licence| {
        let memory = Memory::new();
        let (mut table, bytes) = with_groups::<Granule4K>(&memory, KERNEL, Level::L3);
        let mut there = empty::<Granule4K>(&memory, KERNEL);
        let (mut reserve, mut gather) = (Reserve::new(), table.gather());
        memory.supply::<Granule4K>(&mut reserve, 4);
        let before = slots(&table);
        let _ = memory.take_steps();
        let mut refused = |from: Range<VirtAddr>, licence: Option<&Licence<'_>>| {
            let edit = CopyEdit { set: READ_ONLY, clear: NONE, licence };
            table.copy_to(&mut there, from, edit, &mut reserve, &mut gather, |_, _, _, _| {}).unwrap_err()
        };
        let half = bytes / 2;
        for (from, to) in [(half, 3 * bytes), (0, bytes + half), (3 * bytes, 4 * bytes + half)] {
            assert_eq!(refused(range(from, to), Some(licence)), Refusal::NeedsLicence(from));
        }
        assert_eq!(refused(range(0, bytes), None), Refusal::NeedsLicence(0));
        assert_eq!(refused(range(bytes, 6 * bytes), None), Refusal::NeedsLicence(4 * bytes));
        assert_eq!((slots(&table), slots(&there)), (before, vec![]));
        assert_eq!(stores(&memory.take_steps()).len(), 0);
    });
}

/// Runs of groups that wait for the TLBs are eight at the most, here one in each table, and one that is broken before they are made again.
#[test]
fn groups_of_eight_tables_are_broken_at_once() {
    for (tables, rounds) in [(1, 1), (9, 1), (10, 2), (17, 2), (18, 3)] {
        let (memory, bytes) = (Memory::new(), tables * 2 * MIB);
        let groups = map(0, bytes, 1 << 46, LeafSize::group(Level::L3));
        let mut table = live_at(&memory, shape::<Granule4K>(), PLAIN_KERNEL, &[groups]);
        let mut there = empty::<Granule4K>(&memory, PLAIN_KERNEL);
        let (mut reserve, mut gather) = (Reserve::new(), table.gather());
        memory.supply::<Granule4K>(&mut reserve, tables as usize + 3);
        let _ = memory.take_steps();
        let window = ();
        let edit = CopyEdit { set: READ_ONLY, clear: NONE, licence: Some(&Licence::break_before_make(&window)) };
        table.copy_to(&mut there, range(0, bytes), edit, &mut reserve, &mut gather, |_, _, _, _| {}).unwrap();
        let ends = memory.take_steps().iter().filter(|step| **step == Step::Maintain(Maintenance::DSB_ISH)).count();
        assert_eq!((ends, leaves(&table)), (rounds, leaves(&there)), "{tables} tables");
        assert!(leaves(&table).iter().all(|(_, _, leaf)| leaf.bits() & READ_ONLY.bits() != 0));
        let _ = gather.finish(&memory);
    }
}

/// Tables side by side in memory, in order: here, there, or both. Their groups are broken as one run only if both are.
#[test]
fn groups_of_tables_side_by_side_are_made_again_from_their_copies() {
    let is_side_by_side = |table: &Table<'_, Granule4K>| {
        let slot = |at: u64| table.view().path(VirtAddr::new(at)).last().unwrap().slot.address().bits();
        slot(2 * MIB) == slot(2 * MIB - 0x1000) + 8
    };
    for (is_here, is_there) in [(true, false), (false, true), (true, true)] {
        let memory = Memory::new();
        let groups =
            |number: u64| map(number * 2 * MIB, 2 * MIB, (1 << 46) + number * 2 * MIB, LeafSize::group(Level::L3));
        // The tables above come first.
        let mut table = live_at(&memory, shape::<Granule4K>(), PLAIN_KERNEL, &[groups(9)]);
        let order = if is_here { [0, 1, 2] } else { [2, 1, 0] };
        order.into_iter().for_each(|number| _ = change(&mut table, &memory, &[groups(number)], None));
        let mut there = empty::<Granule4K>(&memory, PLAIN_KERNEL);
        let (mut reserve, mut gather) = (Reserve::new(), table.gather());
        memory.supply::<Granule4K>(&mut reserve, 6);
        if is_there {
            let mut ascending = Reserve::new();
            while let Some(table) = reserve.take(&memory) {
                ascending.add(&memory, table);
            }
            reserve = ascending;
        }
        let window = ();
        let edit = CopyEdit { set: READ_ONLY, clear: NONE, licence: Some(&Licence::break_before_make(&window)) };
        table.copy_to(&mut there, range(0, 6 * MIB), edit, &mut reserve, &mut gather, |_, _, _, _| {}).unwrap();
        let _ = gather.finish(&memory);
        assert_eq!((is_side_by_side(&table), is_side_by_side(&there)), (is_here, is_there));
        let copied: Vec<_> = leaves(&table).into_iter().filter(|(at, ..)| *at < 6 * MIB).collect();
        assert_eq!((copied.len(), copied), (3 * 512, leaves(&there)));
        assert!(leaves(&there).iter().all(|(at, _, leaf)| {
            leaf.bits() & READ_ONLY.bits() != 0 && leaf.bits() & 0x7fff_ffff_f000 == (1 << 46) + at
        }));
    }
}

/// Where nobody walks, groups need no licence, and are not broken.
#[test]
fn groups_of_a_page_table_that_is_not_live_are_copied_freely() {
    let memory = Memory::new();
    let mut table = empty::<Granule4K>(&memory, KERNEL);
    change(&mut table, &memory, &[map(0, 64 << 10, GIB, LeafSize::group(Level::L3))], None);
    let mut there = empty::<Granule4K>(&memory, KERNEL);
    let (mut reserve, mut gather) = (Reserve::new(), table.gather());
    memory.supply::<Granule4K>(&mut reserve, 4);
    let _ = memory.take_steps();
    let edit = CopyEdit { set: READ_ONLY, clear: NONE, licence: None };
    table.copy_to(&mut there, range(0, 64 << 10), edit, &mut reserve, &mut gather, |_, _, _, _| {}).unwrap();
    let _ = gather.finish(&memory);
    let steps = memory.take_steps();
    assert_eq!((leaves(&table), operations(&steps)), (leaves(&there), vec![]));
    assert!(leaves(&table).iter().all(|(_, _, leaf)| leaf.bits() & READ_ONLY.bits() != 0 && leaf.is_contiguous()));
    let of_table: Vec<_> = slots(&table).iter().map(|(slot, _)| stores(&steps)[slot].len()).collect();
    assert_eq!(of_table, [1; 16]);
}

/// Memory in which another CPU's hardware marks all members of a group as accessed and written, just before the first of them is
/// exchanged.
struct Marking {
    memory: Memory,
    members: RefCell<Vec<Slot>>,
}

impl Marking {
    fn mark(&self, members: &[Slot]) {
        for slot in members {
            let leaf = self.memory.load(*slot).bits();
            self.memory.store(*slot, Descriptor::new(leaf & !READ_ONLY.bits() | Stage1Attributes::AF.bits()));
        }
    }
}

impl Platform for Marking {
    fn load(&self, slot: Slot) -> Descriptor {
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.mark(&std::mem::take(&mut *self.members.borrow_mut()));
        self.memory.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.memory.maintain(operation);
    }
}

#[test]
fn what_hardware_marks_in_a_group_meanwhile_is_here_and_there() {
    let census = |level| Census::new(Tolerance::new(level, true));
    let (tolerant, window) = (census(BbmLevel::Level3), ());
    for licence in [Licence::break_before_make(&window), tolerant.tolerated().unwrap()] {
        for (set, clear) in [(READ_ONLY, Stage1Attributes::DBM), (Stage1Attributes::SOFTWARE, NONE)] {
            let machine = Marking { memory: Memory::new(), members: RefCell::default() };
            let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
            // Not shared: leaves of 52 bits do not say so.
            let clean = Stage1Attributes::NO_EXECUTE | Stage1Attributes::DBM | READ_ONLY;
            let mapped = Change::Map {
                from: range(0, 64 << 10),
                to: PhysAddr::new(GIB),
                attributes: clean,
                largest: LeafSize::group(Level::L3),
            };
            let made = live_at(&machine.memory, shape::<Granule4K>(), regime, &[mapped]);
            *machine.members.borrow_mut() = slots(&made).into_iter().map(|(slot, _)| slot).collect();
            let mut table = made.over(&machine);
            let mut reserve = Reserve::new();
            machine.memory.supply::<Granule4K>(&mut reserve, 5);
            let mut there = PageTable::offline(&machine, shape::<Granule4K>(), regime, &mut reserve).unwrap();
            let mut gather = table.gather();
            let edit = CopyEdit { set, clear, licence: Some(&licence) };
            table
                .copy_to(&mut there, range(0, 64 << 10), edit, &mut reserve, &mut gather, |_, leaf, _, _| {
                    let is_told = leaf.bits() & Stage1Attributes::AF.bits() != 0;
                    assert!(is_told || !licence.is_in_place(), "{leaf:?}");
                })
                .unwrap();
            let _ = gather.finish(&machine);
            let expected =
                (clean.bits() | Stage1Attributes::AF.bits()) & !READ_ONLY.bits() & !clear.bits() | set.bits();
            // Each leads a page on from the one before.
            let marked = |table: &PageTable<'_, Granule4K, El1, Marking>| {
                let table = table.over(&machine.memory);
                let attributes = |(at, _, leaf): &(u64, u64, Descriptor)| (leaf.bits() - at) & !(GIB | 0b11 | 1 << 52);
                leaves(&table).iter().map(attributes).collect::<Vec<_>>()
            };
            assert_eq!((marked(&table), marked(&there)), (vec![expected; 16], vec![expected; 16]), "{licence:?}");
        }
    }
}

/// Members may differ in what hardware marked. That would become what they permit.
#[test]
fn a_group_whose_dirty_state_hardware_manages_no_longer_is_refused() {
    each_licence(|licence| {
        let memory = Memory::new();
        let regime = El1 { hardware_updates: HardwareUpdates::DirtyState, ..KERNEL };
        let (mut table, bytes) = with_groups::<Granule4K>(&memory, regime, Level::L3);
        let dbm = Stage1Attributes::DBM;
        let clean = Change::Protect { from: range(0, bytes), set: dbm | READ_ONLY, clear: NONE };
        change(&mut table, &memory, &[clean], Some(&Licence::break_before_make(&())));
        let mut there = empty::<Granule4K>(&memory, regime);
        let (mut reserve, mut gather) = (Reserve::new(), table.gather());
        memory.supply::<Granule4K>(&mut reserve, 4);
        let mut copy = |set, clear| {
            let edit = CopyEdit { set, clear, licence: Some(licence) };
            table.copy_to(&mut there, range(0, bytes), edit, &mut reserve, &mut gather, |_, _, _, _| {})
        };
        assert_eq!(copy(NONE, dbm), Err(Refusal::NeedsLicence(0)));
        assert_eq!(copy(READ_ONLY, dbm), Ok(()));
    });
}
