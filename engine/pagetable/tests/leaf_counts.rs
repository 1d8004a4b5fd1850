//! A summary counts each leaf once by its size, and each table by its level.

use core::convert::Infallible;
use core::ops::ControlFlow;

use crate::common;

use common::{GIB, KERNEL, MIB, change, live_at, map};
use vellum_pagetable::{Memory, PageTable, Refusal, Summary};
use vellum_vmsa::{AddressHalf, Geometry, Granule4K, Granule64K, Layout, LeafSize, Level, VirtAddr};

const PAGE: u64 = 0x1000;

#[test]
fn every_leaf_and_every_table_is_counted() {
    let memory = Memory::new();
    let geometry = Geometry::<Granule4K>::new(48, Layout::Bits48, AddressHalf::Lower).unwrap();
    let mut table = live_at(&memory, geometry, KERNEL, &[]);
    let single = LeafSize::single;
    let setup = [
        (0, 3 * PAGE, LeafSize::PAGE),
        (2 * MIB, 32 * PAGE, LeafSize::LARGEST),
        (4 * MIB, 4 * MIB, single(Level::L2)),
        (32 * MIB, 64 * MIB, LeafSize::LARGEST),
        (GIB, 5 * GIB, single(Level::L1)),
        (512 * GIB, 16 * GIB, LeafSize::LARGEST),
    ];
    for (from, bytes, largest) in setup {
        change(&mut table, &memory, &[map(from, bytes, from, largest)], None);
    }
    let view = table.view();
    let all = Summary::read(&view, view.range()).unwrap();
    let sizes = [LeafSize::PAGE, LeafSize::group(Level::L3), single(Level::L2), LeafSize::group(Level::L2)];
    assert_eq!(sizes.map(|size| all.leaves::<Granule4K>(size)), [3, 2, 2, 2]);
    let sizes = [single(Level::L1), LeafSize::group(Level::L1), single(Level::L0)];
    assert_eq!(sizes.map(|size| all.leaves::<Granule4K>(size)), [5, 1, 0]);
    assert_eq!([Level::L0, Level::L1, Level::L2, Level::L3].map(|level| all.tables_at(level)), [1, 2, 1, 2]);
    assert_eq!((all.tables_at(Level::MINUS_1), all.tables()), (0, 6));
    let mut in_parts = Summary::root(Level::L0);
    let read = view.for_each::<Infallible>(view.range(), |entry| {
        in_parts.count(entry);
        ControlFlow::Continue(())
    });
    assert_eq!((read, in_parts), (Ok(ControlFlow::Continue(())), all));
    let some = Summary::read(&view, VirtAddr::new(0)..VirtAddr::new(2 * MIB)).unwrap();
    assert_eq!((some.leaves::<Granule4K>(LeafSize::PAGE), some.tables()), (3, 4));
    let beyond = Summary::read(&view, VirtAddr::new(0)..VirtAddr::new(1 << 49));
    assert_eq!(beyond, Err(Refusal::OutOfRange(1 << 48)));
}

#[test]
fn a_root_counts_at_its_own_level() {
    for (bits, level) in [(52, Level::MINUS_1), (48, Level::L0), (39, Level::L1), (30, Level::L2)] {
        let memory = Memory::new();
        let layout = if bits == 52 { Layout::Lpa2 } else { Layout::Bits48 };
        let geometry = Geometry::<Granule4K>::new(bits, layout, AddressHalf::Lower).unwrap();
        let table: PageTable<'_, Granule4K, _, _> = live_at(&memory, geometry, KERNEL, &[]);
        let view = table.view();
        let all = Summary::read(&view, view.range()).unwrap();
        assert_eq!((all.tables_at(level), all.tables()), (1, 1), "{bits}");
    }
    let memory = Memory::new();
    let geometry = Geometry::<Granule64K>::new(48, Layout::Bits48, AddressHalf::Lower).unwrap();
    let table = live_at(&memory, geometry, KERNEL, &[map(0, 32 * 0x1_0000, 0, LeafSize::LARGEST)]);
    let view = table.view();
    let all = Summary::read(&view, view.range()).unwrap();
    assert_eq!(all.leaves::<Granule64K>(LeafSize::group(Level::L3)), 1);
}
