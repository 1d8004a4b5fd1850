//! A platform above another: by reference, or told line by line.

mod common;

use std::cell::Cell;

use common::{GIB, KERNEL, MIB, map, read_only, unmap};
use vellum_pagetable::{El1, HardwareUpdates, Memory, PageTable, Platform, Reserve, Slot, Step, Traced};
use vellum_vmsa::{AddressHalf, Descriptor, Geometry, Granule4K, Layout, LeafSize, Maintenance};

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
        memory.supply::<Granule4K>(&mut reserve, 3);
        let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
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
