//! What hardware marks between the steps of a resize in place: TLBs forget the old leaf all the same.

use std::cell::Cell;

use crate::common::shape;

use vellum_pagetable::{
    Census, Change, El1, HardwareUpdates, Memory, PageTable, Platform, Reserve, Scope, Slot, Step, TlbFeatures,
    Tolerance,
};
use vellum_vmsa::{
    AddressHalf, BbmLevel, Descriptor, Granule4K, Layout, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes,
    VirtAddr,
};

const AT: u64 = 0x4000_0000;
const PAGE: u64 = 0x1000;

/// Memory in which another CPU writes to the page at `AT` as soon as the block there has become a table: hardware, which
/// manages the dirty state, clears READ_ONLY in the page's descriptor.
struct Machine {
    memory: Memory,
    block: Cell<Option<Slot>>,
}

impl Platform for Machine {
    fn load(&self, slot: Slot) -> Descriptor {
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.memory.exchange(slot, old, new)?;
        if self.block.get() == Some(slot) && new.is_table(Level::L2) {
            self.block.set(None);
            let page = Slot::new(Layout::Bits48.output(new, 12), 0);
            let written = self.memory.load(page).bits() & !Stage1Attributes::READ_ONLY.bits();
            self.memory.store(page, Descriptor::new(written));
        }
        Ok(())
    }

    fn maintain(&self, operation: Maintenance) {
        self.memory.maintain(operation);
    }
}

#[test]
fn a_block_is_forgotten_though_hardware_did_what_the_edit_was_to_do() {
    let machine = Machine { memory: Memory::default(), block: Cell::new(None) };
    let mut reserve = Reserve::new();
    machine.memory.supply::<Granule4K>(&mut reserve, 8);
    let geometry = shape(39, AddressHalf::Lower);
    let tlb = TlbFeatures { range: true, level_hints: true, repeat: false };
    let regime = El1 { scope: Scope::Global, tlb, hardware_updates: HardwareUpdates::DirtyState };
    let mut table = PageTable::<Granule4K, _, _>::offline(&machine, geometry, regime, &mut reserve).unwrap();
    // Clean: the first write clears READ_ONLY.
    let attributes = Stage1Attributes::INNER_SHAREABLE
        | Stage1Attributes::AF
        | Stage1Attributes::NO_EXECUTE
        | Stage1Attributes::DBM
        | Stage1Attributes::READ_ONLY;
    let from = VirtAddr::new(AT)..VirtAddr::new(AT + 0x20_0000);
    let map = [Change::Map { from, to: PhysAddr::new(0x8000_0000), attributes, largest: LeafSize::LARGEST }];
    let mut gather = table.gather();
    table.plan(&map, None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    let _ = gather.finish(&machine);
    let mut table = table.publish();
    machine.block.set(table.view().path(VirtAddr::new(AT)).last().map(|lookup| lookup.slot));

    let page = VirtAddr::new(AT)..VirtAddr::new(AT + PAGE);
    let (set, clear) = (Stage1Attributes::empty(), Stage1Attributes::READ_ONLY);
    let census = Census::new(Tolerance::new(BbmLevel::Level3, false));
    let licence = census.tolerated();
    let writable = [Change::Protect { from: page.clone(), set, clear }];
    let unmap = [Change::Unmap { from: page }];
    let mut tlbis = Vec::new();
    let _ = machine.memory.take_steps();
    for change in [&writable, &unmap] {
        let mut gather = table.gather();
        table.plan(change, licence.as_ref()).unwrap().apply(&mut reserve, &mut gather).unwrap();
        let _ = gather.finish(&machine);
        tlbis.extend(machine.memory.take_steps().into_iter().filter_map(|step| match step {
            Step::Maintain(Maintenance::Invalidate(op, operand)) => Some((op, operand)),
            _ => None,
        }));
    }
    // The TLB of the CPU that wrote holds the block of level 2. A TLBI by address reaches it without a level hint, or with
    // the hint 0b0110; a hint for level 3 does not.
    let reaches_block = |&(_, operand): &(_, u64)| matches!(operand >> 44 & 0xf, 0 | 0b0110);
    assert!(
        tlbis.iter().any(reaches_block),
        "the page is unmapped and the block that maps it is not forgotten: {tlbis:x?}"
    );
}
