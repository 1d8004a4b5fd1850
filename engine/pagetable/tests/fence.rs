//! Nothing but the page table's own tables is read or written, whatever stands behind the last slot of one.

use crate::common;

use std::cell::RefCell;
use std::collections::BTreeSet;

use common::{DATA, GIB, KERNEL, MIB, map, shape};
use vellum_pagetable::{Change, Licence, Memory, PageTable, Platform, Reserve, Slot};
use vellum_vmsa::{
    AddressHalf, Descriptor, Granule4K, LeafSize, Level, Maintenance, PhysAddr, Stage1Attributes, VirtAddr,
};

const PAGE: u64 = 0x1000;

fn range(from: u64, bytes: u64) -> std::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// A platform on which nothing but the tables that it was given is read.
struct Fenced<'m> {
    memory: &'m Memory,
    tables: RefCell<BTreeSet<u64>>,
}

impl Platform for Fenced<'_> {
    fn load(&self, slot: Slot) -> Descriptor {
        let table = slot.address().align_down(PAGE).bits();
        assert!(self.tables.borrow().contains(&table), "{slot:?} is in no table of the page table");
        self.memory.load(slot)
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        assert!(self.tables.borrow().contains(&slot.address().align_down(PAGE).bits()), "{slot:?} is in no table");
        self.memory.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.memory.exchange(slot, old, new)
    }

    fn maintain(&self, operation: Maintenance) {
        self.memory.maintain(operation);
    }
}

impl Fenced<'_> {
    /// Tables with other memory between them.
    fn supply(&self, reserve: &mut Reserve, count: usize) {
        for _ in 0..count {
            let number = self.tables.borrow().len() as u64;
            let table = PhysAddr::new((1 << 31) + 2 * PAGE * number);
            self.tables.borrow_mut().insert(table.bits());
            reserve.add(self, table);
        }
    }
}

#[test]
fn nothing_beyond_the_tables_is_read_or_written() {
    let (to, attributes, largest) = (PhysAddr::new(0), DATA, LeafSize::LARGEST);
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    for size in [LeafSize::PAGE, LeafSize::group(Level::L3), LeafSize::single(Level::L2), LeafSize::LARGEST] {
        for (first, bytes) in
            [(0, 2 * MIB), (GIB - 4 * MIB, 4 * MIB), (512 * GIB - 2 * MIB, 2 * MIB), (GIB - 5 * PAGE, 5 * PAGE)]
        {
            let from = range(first, bytes);
            let wishes = [
                Change::Protect { from: from.clone(), set, clear },
                Change::Age { from: from.clone() },
                Change::Remap { from: from.clone(), to, attributes, largest },
                Change::Unmap { from: range(first + bytes - PAGE, PAGE) },
                map(first, bytes, 0, largest),
                Change::MakeInvalid { from: from.clone() },
                Change::MakeValid { from: from.clone() },
                Change::Collapse { from: from.clone() },
                Change::SplitToPages { from: from.clone() },
                Change::Collapse { from: from.clone() },
                Change::Unmap { from: from.clone() },
                map(first, bytes, 0, LeafSize::PAGE),
                map(first + bytes - PAGE, PAGE, 0, LeafSize::PAGE),
            ];
            let memory = Memory::new();
            let platform = Fenced { memory: &memory, tables: RefCell::default() };
            let mut reserve = Reserve::new();
            platform.supply(&mut reserve, 1);
            let geometry = shape::<Granule4K>(39, AddressHalf::Lower);
            let mut table = PageTable::offline(&platform, geometry, KERNEL, &mut reserve).unwrap().publish();
            let licence = Licence::break_before_make(&());
            for wish in [map(first, bytes, GIB, size)].iter().chain(&wishes) {
                let Ok(mut plan) = table.plan(std::slice::from_ref(wish), Some(&licence)) else { continue };
                let lacking = plan.tables_needed().saturating_sub(reserve.count());
                platform.supply(&mut reserve, lacking);
                let mut gather = plan.gather();
                plan.apply(&mut reserve, &mut gather).unwrap();
                let mut retired = gather.finish(&platform);
                while let Some(table) = retired.take(&platform) {
                    reserve.add(&platform, table);
                }
            }
        }
    }
}
