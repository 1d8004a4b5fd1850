//! What hardware marks as accessed or written, before, between and amid the steps of a change: nothing is lost, and nothing is
//! changed that was not planned for.

use std::cell::Cell;
use std::ops::Range;

use vellum_pagetable::{
    Census, Change, HardwareUpdates, Licence, Memory, PageTable, Platform, Refusal, Reserve, Slot, Stage2, TlbFeatures,
    Tolerance,
};
use vellum_vmsa::{
    BbmLevel, Descriptor, Geometry, Granule4K, IntermediateAddr, Layout, LeafSize, Level, Maintenance, PhysAddr,
    Stage2Attributes, Stage2Memory,
};

const START: u64 = 0x4000_0000;
const BLOCK: u64 = 0x20_0000;
const PAGE: u64 = 0x1000;
const BLOCKS: u64 = 16;
const VALID: u64 = Descriptor::VALID;
/// Accessed and written.
const MARKED: u64 = Stage2Attributes::AF.bits() | Stage2Attributes::WRITE.bits();

/// Memory whose hardware marks a leaf when the first barrier or TLBI after `arm` is executed.
struct Machine {
    memory: Memory,
    armed: Cell<Option<Slot>>,
}

impl Machine {
    fn mark(&self, slot: Slot, bits: u64) {
        self.memory.store(slot, Descriptor::new(self.memory.load(slot).bits() | bits));
    }
}

impl Platform for Machine {
    fn load(&self, slot: Slot) -> Descriptor {
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.memory.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.memory.maintain(operation);
        if let Some(slot) = self.armed.take() {
            self.mark(slot, MARKED);
        }
    }
}

type Table<'m> = PageTable<'m, Granule4K, Stage2, Machine>;

fn pages(from: u64, to: u64) -> Range<IntermediateAddr> {
    IntermediateAddr::new(START + from)..IntermediateAddr::new(START + to)
}

/// Nobody has accessed or written it, and hardware may mark that.
fn clean() -> Stage2Attributes {
    let memory = Stage2Attributes::with_memory(Stage2Memory::WriteBack, false).unwrap();
    memory | Stage2Attributes::READ | Stage2Attributes::DBM | Stage2Attributes::INNER_SHAREABLE
}

/// A live contiguous group of sixteen clean blocks.
fn with_group(test: impl FnOnce(&Machine, &mut Table<'_>)) {
    let machine = Machine { memory: Memory::default(), armed: Cell::new(None) };
    let geometry = Geometry::stage2(40, Level::L1, Layout::Bits48).unwrap();
    let regime = Stage2 { vmid: 7, tlb: TlbFeatures::default(), hardware_updates: HardwareUpdates::DirtyState };
    let table = PageTable::offline_at(&machine, geometry, regime, PhysAddr::new(0x7000_0000)).unwrap();
    let (from, to) = (pages(0, BLOCKS * BLOCK), PhysAddr::new(0x8_0000_0000));
    let map = Change::Map { from, to, attributes: clean(), largest: LeafSize::LARGEST };
    let mut table = table.publish();
    change(&machine, &mut table, &[map], None).unwrap();
    let leaf = table.view().translate(IntermediateAddr::new(START)).unwrap();
    assert_eq!(leaf.size, LeafSize::group(Level::L2));
    test(&machine, &mut table);
}

/// Makes changes with as many tables as they ask for, and no more.
fn change(
    machine: &Machine,
    table: &mut Table<'_>,
    changes: &[Change<Stage2>],
    licence: Option<&Licence<'_>>,
) -> Result<(), Refusal> {
    let mut reserve = Reserve::new();
    let mut plan = table.plan(changes, licence)?;
    machine.memory.supply::<Granule4K>(&mut reserve, plan.tables_needed());
    let mut gather = plan.gather();
    plan.apply(&mut reserve, &mut gather)?;
    let _ = gather.finish(machine);
    while reserve.take(machine).is_some() {}
    Ok(())
}

/// Where the leaf of an address stands.
fn slot(table: &Table<'_>, offset: u64) -> Slot {
    table.view().path(IntermediateAddr::new(START + offset)).last().unwrap().slot
}

/// What the leaf of an address says of validity, access and writes.
fn says(table: &Table<'_>, offset: u64) -> u64 {
    let leaf = table.view().path(IntermediateAddr::new(START + offset)).last().unwrap().descriptor;
    leaf.bits() & (MARKED | VALID)
}

#[test]
fn a_mark_of_one_member_is_of_all_when_the_group_is_dissolved() {
    let guard = ();
    with_group(|machine, table| {
        machine.mark(slot(table, 0), MARKED);
        let at = IntermediateAddr::new(START + 3 * BLOCK);
        change(machine, table, &[Change::Split { at }], Some(&Licence::break_before_make(&guard))).unwrap();
        assert!((0..BLOCKS).all(|member| says(table, member * BLOCK) == MARKED | VALID));
    });
}

#[test]
fn a_member_that_gets_a_mark_amid_a_list_has_the_table_it_then_needs() {
    let guard = ();
    with_group(|machine, table| {
        machine.mark(slot(table, 0), MARKED);
        let clean = |from| Change::Clean { from: pages(from, from + PAGE) };
        change(machine, table, &[clean(0), clean(BLOCK)], Some(&Licence::break_before_make(&guard))).unwrap();
        let (written, cleaned) = (MARKED | VALID, Stage2Attributes::AF.bits() | VALID);
        let expected = [cleaned, written, cleaned, written, written];
        assert_eq!([0, PAGE, BLOCK, BLOCK + PAGE, 2 * BLOCK].map(|at| says(table, at)), expected);
    });
}

#[test]
fn a_kept_member_that_gets_a_mark_has_the_table_it_then_needs() {
    with_group(|machine, table| {
        machine.mark(slot(table, 0), Stage2Attributes::AF.bits());
        change(machine, table, &[Change::MakeInvalid { from: pages(0, BLOCKS * BLOCK) }], None).unwrap();
        change(machine, table, &[Change::Age { from: pages(BLOCK - PAGE, BLOCK + PAGE) }], None).unwrap();
        let accessed = Stage2Attributes::AF.bits();
        let offsets = [0, BLOCK - PAGE, BLOCK, BLOCK + PAGE, 2 * BLOCK];
        assert_eq!(offsets.map(|at| says(table, at)), [accessed, 0, 0, accessed, accessed]);
    });
}

#[test]
fn a_mark_after_the_plan_changes_nothing_that_has_no_licence() {
    with_group(|machine, table| {
        let marked = slot(table, BLOCK);
        let mut reserve = Reserve::new();
        let changes = [Change::Clean { from: pages(BLOCK, BLOCK + PAGE) }];
        let mut plan = table.plan(&changes, None).unwrap();
        let mut gather = plan.gather();
        machine.mark(marked, MARKED);
        plan.apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(machine);
        let leaf = table.view().translate(IntermediateAddr::new(START + BLOCK)).unwrap();
        assert_eq!((leaf.size, says(table, BLOCK)), (LeafSize::group(Level::L2), MARKED | VALID));
    });
}

#[test]
fn a_mark_amid_break_before_make_is_kept_with_every_page() {
    let guard = ();
    let licence = Licence::break_before_make(&guard);
    let to = PhysAddr::new(0x9_0000_0000);
    let hide = Change::MakeInvalid { from: pages(BLOCK, BLOCK + PAGE) };
    let remap = Change::Remap { from: pages(BLOCK, BLOCK + PAGE), to, attributes: clean(), largest: LeafSize::PAGE };
    for (amid, expected) in [(hide, MARKED), (remap, VALID)] {
        for is_dissolved_before in [false, true] {
            with_group(|machine, table| {
                if is_dissolved_before {
                    let split = Change::Split { at: IntermediateAddr::new(START + BLOCK) };
                    change(machine, table, &[split], Some(&licence)).unwrap();
                }
                machine.armed.set(Some(slot(table, BLOCK)));
                change(machine, table, core::slice::from_ref(&amid), Some(&licence)).unwrap();
                assert_eq!([BLOCK, BLOCK + PAGE].map(|at| says(table, at)), [expected, MARKED | VALID]);
            });
        }
    }
}

#[test]
fn members_that_were_passed_are_cleaned_of_the_marks_of_others() {
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    with_group(|machine, table| {
        machine.mark(slot(table, BLOCK), MARKED);
        let clean = Change::Clean { from: pages(0, 2 * BLOCK) };
        change(machine, table, &[clean], census.tolerated().as_ref()).unwrap();
        let (written, cleaned) = (MARKED | VALID, Stage2Attributes::AF.bits() | VALID);
        assert_eq!([0, BLOCK, 2 * BLOCK].map(|at| says(table, at)), [cleaned, cleaned, written]);
    });
}

/// Others left the first member of a group without DBM. A clean that begins inside it has nothing to do, until hardware marks
/// the next member: then the group is dissolved, and the first is cut.
#[test]
fn a_member_that_a_mark_on_another_cuts_has_its_table() {
    with_group(|machine, table| {
        let (first, second) = (slot(table, 0), slot(table, BLOCK));
        let without = machine.memory.load(first).bits() & !Stage2Attributes::DBM.bits();
        machine.memory.store(first, Descriptor::new(without));
        let clean = [Change::Clean { from: pages(PAGE, 2 * BLOCK) }];
        let licence = Licence::break_before_make(&());
        let mut reserve = Reserve::new();
        let mut plan = table.plan(&clean, Some(&licence)).unwrap();
        machine.memory.supply::<Granule4K>(&mut reserve, plan.tables_needed());
        machine.mark(second, MARKED);
        let mut gather = plan.gather();
        plan.apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(machine);
        assert_ne!(says(table, 0) & VALID, 0, "the first member is gone");
        while reserve.take(machine).is_some() {}
    });
}

/// Others left a hole in a group. What is aged of it ends without the access flag, whichever member had it.
#[test]
fn members_before_the_one_that_has_a_group_with_a_hole_dissolved_get_no_mark_of_it() {
    with_group(|machine, table| {
        machine.memory.store(slot(table, 5 * BLOCK), Descriptor::INVALID);
        machine.mark(slot(table, BLOCK), Stage2Attributes::AF.bits());
        let licence = Licence::break_before_make(&());
        change(machine, table, &[Change::Age { from: pages(0, 4 * BLOCK) }], Some(&licence)).unwrap();
        for number in 0..4 {
            assert_eq!(says(table, number * BLOCK), VALID, "member {number}");
        }
    });
}

/// Memory in which nobody else writes.
struct Alone(Memory);

impl Platform for Alone {
    fn load(&self, slot: Slot) -> Descriptor {
        self.0.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.0.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, _: Descriptor, _: Descriptor) -> Result<(), Descriptor> {
        panic!("an exchange at {slot:?}, where no hardware marks anything");
    }

    fn maintain(&self, operation: Maintenance) {
        panic!("{operation:?}, where no TLB holds anything");
    }
}

#[test]
fn tables_that_nobody_walks_are_stored_to_and_need_no_order() {
    let platform = Alone(Memory::default());
    let geometry = Geometry::<Granule4K>::stage2(40, Level::L1, Layout::Bits48).unwrap();
    let regime = Stage2 { vmid: 7, tlb: TlbFeatures::default(), hardware_updates: HardwareUpdates::DirtyState };
    let mut table = PageTable::offline_at(&platform, geometry, regime, PhysAddr::new(0x7000_0000)).unwrap();
    let (to, largest) = (PhysAddr::new(0x8_0000_0000), LeafSize::LARGEST);
    let part = pages(BLOCK + PAGE, BLOCK + 2 * PAGE);
    let changes = [
        Change::Map { from: pages(0, BLOCKS * BLOCK), to, attributes: clean(), largest },
        Change::Protect { from: part.clone(), set: Stage2Attributes::WRITE, clear: Stage2Attributes::empty() },
        Change::MakeInvalid { from: part.clone() },
        Change::MakeValid { from: part.clone() },
        Change::Unmap { from: pages(0, BLOCKS * BLOCK) },
    ];
    for one in changes {
        let (mut reserve, list) = (Reserve::new(), [one]);
        let mut plan = table.plan(&list, None).unwrap();
        platform.0.supply::<Granule4K>(&mut reserve, plan.tables_needed());
        let mut gather = plan.gather();
        plan.apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(&platform);
        while reserve.take(&platform).is_some() {}
    }
}

/// DBM is cleared and set again: hardware manages the dirty state afterwards as it did before.
#[test]
fn a_group_whose_dirty_state_is_still_managed_stays_one() {
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    with_group(|machine, table| {
        let set = Stage2Attributes::DBM | Stage2Attributes::XN1;
        let protect = Change::Protect { from: pages(0, BLOCKS * BLOCK), set, clear: Stage2Attributes::DBM };
        change(machine, table, &[protect], census.tolerated().as_ref()).unwrap();
        let leaf = table.view().translate(IntermediateAddr::new(START)).unwrap();
        assert_eq!((leaf.size, leaf.descriptor.bits() & set.bits()), (LeafSize::group(Level::L2), set.bits()));
    });
}
