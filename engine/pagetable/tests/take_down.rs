//! Taking a page table down: every table comes back once, and no TLB holds anything.

use crate::common;

use std::collections::BTreeSet;

use common::walkers::{Beside, Walkers};
use common::{GIB, KERNEL, MIB, ROOT, map, read_only, shape};
use vellum_pagetable::{Change, Licence, Memory, PageTable, Platform, Reserve, Slot, Stage2, Step, View};
use vellum_vmsa::{AddressHalf, Descriptor, Geometry, Granule4K, Layout, LeafSize, Level, Stage2Attributes};

#[test]
fn every_table_comes_back_and_the_root_with_them() {
    for is_live in [false, true] {
        let memory = Memory::new();
        let mut reserve = Reserve::new();
        memory.supply::<Granule4K>(&mut reserve, 12);
        let geometry = shape::<Granule4K>(48, AddressHalf::Lower);
        let mut table = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).unwrap();
        if is_live {
            table = table.publish();
        }
        let mut walkers = Walkers::of(&table, &memory, Beside::InPlace);
        let (root, mut gather) = (table.root(), table.gather());
        let setup = [map(0, GIB, 0, LeafSize::LARGEST), map(5 * GIB, 3 * MIB, MIB, LeafSize::LARGEST)];
        table.plan(&setup, None).unwrap().apply(&mut reserve, &mut gather).unwrap();
        let licence = Licence::break_before_make(&());
        table.plan(&[read_only(0x5000, 0x1000)], Some(&licence)).unwrap().apply(&mut reserve, &mut gather).unwrap();
        reserve.refill(&memory, gather.finish(&memory));
        let view = View::new(&memory, geometry, KERNEL, root);
        let held = reserve.count();
        let mut retired = table.take_down();
        assert_eq!((retired.count() + held, is_live), (12, is_live), "tables are lost");
        if is_live {
            // The root itself is written when no walker has it any more: it is on a list then.
            let mut steps = memory.take_steps();
            let last = steps.pop();
            assert!(matches!(last, Some(Step::Store(slot, new)) if slot == Slot::new(root, 0) && !new.is_valid()));
            walkers.follow(&steps);
            walkers.check();
        }
        let taken: BTreeSet<_> = std::iter::from_fn(|| retired.take(&memory)).collect();
        assert_eq!((taken.len() + held, taken.contains(&root)), (12, true));
        assert_eq!(view.translate(0x5000.into()).map(|found| found.size), None);
    }
}

/// The caller brought the root of several tables: it stays the caller's, and holds nothing.
#[test]
fn a_root_that_the_caller_brought_stays_the_callers() {
    let memory = Memory::new();
    let geometry = Geometry::<Granule4K>::stage2(40, Level::L1, Layout::Bits48).unwrap();
    let regime = Stage2 { vmid: 1, tlb: KERNEL.tlb, hardware_updates: KERNEL.hardware_updates };
    let mut table = PageTable::offline_at(&memory, geometry, regime, ROOT).unwrap().publish();
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 4);
    let mut gather = table.gather();
    let attributes = Stage2Attributes::AF;
    let map = Change::map(0..0x3000, 0, attributes);
    table.plan(&[map], None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    reserve.refill(&memory, gather.finish(&memory));
    assert_eq!((reserve.count(), table.take_down().count()), (2, 2));
    assert!((0..geometry.root_entries()).all(|index| memory.load(Slot::new(ROOT, index)) == Descriptor::INVALID));
}
