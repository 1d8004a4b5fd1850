//! A reserve whose page no descriptor of the layout can name.

use crate::common;

use common::{DATA, KERNEL};
use vellum_pagetable::{Change, El1, Memory, PageTable, Reserve};
use vellum_vmsa::{AddressHalf, Geometry, Granule4K, Layout, LeafSize, PhysAddr, VirtAddr};

/// Above 2^48 there is memory on machines with 52 bits of physical address, whatever layout a page table has.
const WIDE: u64 = 1 << 48;

#[test]
fn a_table_that_descriptors_cannot_name_is_refused() {
    let memory = Memory::new();
    let mut reserve = Reserve::new();
    let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
    memory.supply::<Granule4K>(&mut reserve, 1);
    let mut table = PageTable::<_, El1, _>::offline(&memory, geometry, KERNEL, &mut reserve).unwrap();
    reserve.add(&memory, PhysAddr::new(WIDE));
    reserve.add(&memory, PhysAddr::new(WIDE + 0x1000));
    let from = VirtAddr::new(0)..VirtAddr::new(0x1000);
    let to = PhysAddr::new(0x8000_0000);
    let map = [Change::Map { from, to, attributes: DATA, largest: LeafSize::PAGE }];
    let mut gather = table.gather();
    if table.plan(&map, None).unwrap().apply(&mut reserve, &mut gather).is_err() {
        return;
    }
    let _ = gather.finish(&memory);
    let links: Vec<_> = table.view().path(VirtAddr::new(0)).map(|lookup| lookup.descriptor).collect();
    let leads = table.view().translate(VirtAddr::new(0)).map(|leaf| leaf.output);
    assert_eq!(leads, Some(to), "walked by {links:x?}, of which the tables were at {WIDE:#x} and above");
}

#[test]
fn a_root_that_no_ttbr_can_name_is_refused() {
    let memory = Memory::new();
    let mut reserve = Reserve::new();
    reserve.add(&memory, PhysAddr::new(WIDE));
    let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
    assert!(PageTable::<_, El1, _>::offline(&memory, geometry, KERNEL, &mut reserve).is_err());
}
