//! A platform above another: by reference, or told line by line.

use crate::common;

use std::cell::{Cell, RefCell};

use common::{GIB, KERNEL, MIB, map, read_only, shape, tables_above, unmap};
use vellum_pagetable::{El1, HardwareUpdates, Memory, PageTable, Platform, Rehearsal, Reserve, Slot, Step, Traced};
use vellum_vmsa::{
    AddressHalf, Descriptor, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Maintenance, PhysAddr,
};

const PAGE: u64 = 0x1000;

/// A machine that counts who waits for views.
struct Counting<'m> {
    memory: &'m Memory,
    waits: Cell<usize>,
}

impl Platform for Counting<'_> {
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
    }

    fn wait_for_views(&self) {
        self.waits.set(self.waits.get() + 1);
    }
}

/// What is asked of a platform is asked of the one beneath, be it reached by reference or be it told of.
#[test]
fn a_platform_above_another_does_what_that_does() {
    fn run<P: Platform>(platform: &P, memory: &Memory) -> Vec<Step> {
        let mut reserve = Reserve::new();
        memory.supply::<Granule4K>(&mut reserve, 5);
        let geometry = shape::<Granule4K>(39, AddressHalf::Lower);
        let regime = El1 { hardware_updates: HardwareUpdates::AccessFlag, ..KERNEL };
        let mut table = PageTable::offline(platform, geometry, regime, &mut reserve).unwrap().publish();
        for wish in [map(0, PAGE, GIB, LeafSize::PAGE), read_only(0, PAGE), unmap(0, 2 * MIB)] {
            let mut gather = table.gather();
            table.plan(&[wish], None).unwrap().apply(&mut reserve, &mut gather).unwrap();
            let _ = gather.finish(platform);
        }
        memory.take_steps()
    }
    let memories = [Memory::new(), Memory::new(), Memory::new()];
    let platforms = memories.each_ref().map(|memory| Counting { memory, waits: Cell::new(0) });
    let plain = run(&platforms[0], &memories[0]);
    assert_eq!(run(&&platforms[1], &memories[1]), plain);
    let lines = Cell::new(0);
    let traced = Traced::new(&platforms[2], 0, |_| lines.set(lines.get() + 1));
    assert_eq!(run(&traced, &memories[2]), plain);
    assert!(lines.get() >= plain.len());
    let waits = platforms.map(|it| it.waits.get());
    assert!(waits[0] > 0 && waits == [waits[0]; 3], "{waits:?}");
}

/// What is traced is all that is done: loads, stores, exchanges, barriers and TLBIs, with what was found.
#[test]
fn every_step_is_told() {
    let (memory, slot) = (Memory::new(), Slot::new(PhysAddr::new(PAGE), 3));
    let told = RefCell::new(Vec::new());
    let traced = Traced::new(&memory, 2, |line| told.borrow_mut().push(line.to_string()));
    let [one, two] = [1, 2].map(Descriptor::new);
    traced.store(slot, one);
    assert_eq!((traced.exchange(slot, two, one), traced.exchange(slot, one, two)), (Err(one), Ok(())));
    assert_eq!(traced.load(slot), two);
    traced.maintain(Maintenance::DSB_ISHST);
    let told = told.take();
    let at = slot.address().bits();
    assert_eq!(
        told[..4],
        [
            format!("2 store {at:#x} 0x1"),
            format!("2 exchange {at:#x} 0x2 0x1 0x1"),
            format!("2 exchange {at:#x} 0x1 0x2 0x1"),
            format!("2 load {at:#x} 0x2"),
        ]
    );
    assert_eq!(told.len(), 5);
}

/// A rehearsal holds what was stored in it, and exchanges only what it holds, as a machine does.
#[test]
fn a_rehearsal_exchanges_what_is_there() {
    let (memory, slot) = (Memory::new(), Slot::new(PhysAddr::new(PAGE), 3));
    let [one, two, three] = [1, 2, 3].map(Descriptor::new);
    memory.store(slot, one);
    let rehearsal = Rehearsal::new(&memory);
    assert_eq!((rehearsal.exchange(slot, two, three), rehearsal.load(slot)), (Err(one), one));
    assert_eq!((rehearsal.exchange(slot, one, two), rehearsal.load(slot)), (Ok(()), two));
    assert_eq!((rehearsal.exchange(slot, one, three), rehearsal.load(slot)), (Err(two), two));
    let steps = rehearsal.into_steps();
    let told = |expected, new, found| Step::Exchange { slot, expected, new, found };
    assert_eq!(steps, [told(two, three, one), told(one, two, one), told(one, three, two)]);
    assert_eq!(memory.load(slot), one, "what is rehearsed is not done");
}

/// Tables are supplied side by side, each aligned to its own granule, and what comes free goes back into a reserve.
#[test]
fn tables_are_supplied_aligned_and_refilled() {
    let (memory, mut reserve) = (Memory::new(), Reserve::new());
    memory.supply::<Granule4K>(&mut reserve, 2);
    memory.supply::<Granule64K>(&mut reserve, 2);
    memory.supply::<Granule16K>(&mut reserve, 1);
    memory.supply::<Granule4K>(&mut reserve, 1);
    let taken: Vec<_> =
        std::iter::from_fn(|| reserve.take(&memory)).map(|table| table.bits() - common::TABLES).collect();
    assert_eq!(taken, [0x3_4000, 0x3_0000, 0x2_0000, 0x1_0000, 0x1000, 0]);
    let table = common::live_4k(&memory, &[map(0, PAGE, GIB, LeafSize::PAGE), map(GIB, PAGE, GIB, LeafSize::PAGE)]);
    let retired = table.take_down();
    let count = retired.count();
    reserve.refill(&memory, retired);
    let mut tables: Vec<_> = std::iter::from_fn(|| reserve.take(&memory)).collect();
    tables.sort_unstable();
    tables.dedup();
    assert_eq!((count, tables.len()), (5 + tables_above(), count));
    assert!(tables.iter().all(|table| table.is_aligned(Granule4K::SIZE_BYTES)));
}

/// What is kept without its platform is walked: its tables are made known before, and once.
#[test]
fn what_is_detached_has_been_published() {
    let memory = Memory::new();
    let (offline, live) = (common::offline::<Granule4K>(&memory, 39, Layout::Bits48), common::live_4k(&memory, &[]));
    let _ = memory.take_steps();
    let root = offline.root();
    assert_eq!(offline.detach().address(), root);
    assert_eq!(memory.take_steps(), [Step::Maintain(Maintenance::DSB_ISHST)]);
    let _ = live.detach();
    assert_eq!(memory.take_steps(), []);
}
