//! Tables of large machines under full protection, built by the code that kernels run:
//! `cargo test --release -p vellum-linearmap --test scale -- --nocapture`.
//!
//! A server's memory: banks with a hole below 4 GiB, a kernel whose text and read-only data cannot be written in the linear map, a
//! range that firmware keeps. The least that the geometry allows is counted here from addresses alone.

#[allow(dead_code, unused_macros, reason = "the other tests use the rest")]
#[path = "../common/mod.rs"]
mod common;

use std::collections::BTreeSet;

use common::{DATA, GIB, MIB, Plan, at, cpu, leaves, painted, region, tables};
use vellum_linearmap::{Context, Leaves};
use vellum_vmsa::{BbmLevel, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, Level, Stage1Attributes};

const TIB: u64 = 1 << 40;

/// Memory that ends at `end`: 2 GiB at 2 GiB, the rest from 4 GiB on.
fn server(end: u64) -> Plan {
    let read_only = DATA.union(Stage1Attributes::READ_ONLY);
    let (kernel, firmware) = (2 * GIB + 2 * MIB, 4 * GIB - 64 * MIB);
    Plan {
        regions: vec![
            region(2 * GIB, kernel, DATA),
            region(kernel, kernel + 30 * MIB, read_only),
            region(kernel + 30 * MIB, firmware, DATA),
            region(4 * GIB, end, DATA),
        ],
        leaves: Leaves::Largest,
        input_bits: 48,
        range: None,
    }
}

/// QEMU's `virt` with 2 GiB, and a kernel whose text and read-only data do not end where a block does.
fn virt() -> Plan {
    let kernel = GIB + 2 * MIB;
    let regions = vec![
        region(GIB, kernel, DATA),
        region(kernel, kernel + 832 * 1024, DATA.union(Stage1Attributes::READ_ONLY)),
        region(kernel + 832 * 1024, 3 * GIB, DATA),
    ];
    Plan { regions, ..server(0) }
}

/// The fewest tables that any map of these regions can have: one at each place, beneath the root, that a boundary cuts which is
/// not one of a leaf there, and one wherever there are no leaves at all.
fn least<G: Granule>(plan: &Plan, geometry: Geometry<G>) -> usize {
    let mut least = BTreeSet::from([(geometry.start(), 0)]);
    for region in &plan.regions {
        for level in [Level::L1, Level::L2, Level::L3].into_iter().filter(|&level| level > geometry.start()) {
            let above = Geometry::<G>::shift(level) + G::INDEX_BITS;
            let (start, end) = (region.physical.start.bits(), region.physical.end.bits());
            let has_block = G::PAGE_SIZE.has_leaf(Level::new(level.number() - 1).unwrap(), Layout::Bits48);
            let mut need = |place: u64| _ = least.insert((level, place));
            if has_block {
                [start, end].into_iter().filter(|at| at % (1 << above) != 0).for_each(|at| need(at >> above));
            } else {
                (start >> above..end.div_ceil(1 << above)).for_each(&mut need);
            }
        }
    }
    least.len()
}

/// Paints memory, and says in one line what that took.
fn build<G: Granule>(plan: Plan) -> (usize, usize) {
    let end = plan.regions.last().unwrap().physical.end.bits();
    let map = painted::<G>(&plan, cpu(BbmLevel::Level3));
    assert!(map.refill());
    let (least, tables, reserve) = (least::<G>(&plan, map.view().geometry()), tables(&map), map.reserve());
    let kib = |tables: usize| tables as u64 * G::SIZE_BYTES / 1024;
    println!(
        "{:>4} GiB, {} pages: {tables} tables, {} KiB (least {least}, {} KiB); {} leaves; reserve {} KiB",
        plan.bytes().div_ceil(GIB),
        G::PAGE_SIZE,
        kib(tables),
        kib(least),
        leaves(&map).len(),
        kib(reserve)
    );
    // Full protection is in force: any page of it can be protected, and is whole again after.
    let before = leaves(&map);
    let page = [at(&map, end - GIB + 5 * G::SIZE_BYTES, G::SIZE_BYTES)];
    map.set_memory_ro(&page, Context::Atomic).unwrap();
    assert_ne!(leaves(&map), before);
    map.set_memory_rw(&page, Context::Atomic).unwrap();
    map.heal_all();
    assert_eq!(leaves(&map), before);
    (tables, least)
}

#[test]
fn tables_of_2_gib_are_fewer_than_32_kib() {
    let (tables, least) = build::<Granule4K>(virt());
    assert!(tables * 4 <= 32 && tables == least, "{tables} tables of 4 KiB, {least} at least");
}

#[test]
fn tables_of_large_machines_are_few() {
    for end in [256 * GIB, 4 * TIB] {
        let (tables, least) = build::<Granule4K>(server(end));
        assert!(tables * 4 <= 64 && tables == least, "{tables} tables of 4 KiB, {least} at least");
        let (tables, least) = build::<Granule16K>(server(end));
        assert!(tables <= least + 2, "{tables} tables of 16 KiB, {least} at least");
        let (tables, least) = build::<Granule64K>(server(end));
        assert!(tables <= least + 2, "{tables} tables of 64 KiB, {least} at least");
    }
}
