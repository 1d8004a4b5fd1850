//! An identity map as `aarch64-paging` makes it, made with this crate: `cargo run -p vellum-pagetable --example migrated`.
//!
//! `docs/migrating-from-aarch64-paging.md` goes through it line by line.

use std::error::Error;
use std::ops::ControlFlow;

use vellum_pagetable::{Change, El1, HardwareUpdates, Licence, Memory, PageTable, Reserve, Scope, TlbFeatures};
use vellum_vmsa::{AddressHalf, Geometry, Granule4K, Layout, LeafSize, Meaning, PhysAddr, Stage1Attributes, VirtAddr};

fn main() -> Result<(), Box<dyn Error>> {
    // In a kernel, its own platform: see examples/own_kernel.rs.
    let machine = Memory::new();
    let mut reserve = Reserve::new();
    machine.supply::<Granule4K>(&mut reserve, 8);
    let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower)?;
    let regime = El1 { scope: Scope::Asid(1), tlb: TlbFeatures::default(), hardware_updates: HardwareUpdates::None };
    let mut table = PageTable::offline(&machine, geometry, regime, &mut reserve)?;

    let normal = Stage1Attributes::memory(1) | Stage1Attributes::INNER_SHAREABLE;
    let attributes = normal | Stage1Attributes::NOT_GLOBAL | Stage1Attributes::AF;
    let from = VirtAddr::new(0x8020_0000)..VirtAddr::new(0x8040_0000);
    let to = PhysAddr::new(0x8020_0000);
    let map = [Change::Map { from: from.clone(), to, attributes, largest: LeafSize::LARGEST }];
    let mut gather = table.gather();
    table.plan(&map, None)?.apply(&mut reserve, &mut gather)?;
    let _ = gather.finish(&machine);

    let mut table = table.publish();
    println!("TTBR0_EL1 = {:#x}", 1 << 48 | table.root().bits());

    let page = VirtAddr::new(0x8020_5000)..VirtAddr::new(0x8020_6000);
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    let protect = [Change::Protect { from: page, set, clear }];
    let licence = Licence::break_before_make(&());
    table.plan(&protect, Some(&licence))?.apply(&mut reserve, &mut gather)?;
    let _ = gather.finish(&machine);

    let _ = table.view().for_each(from.clone(), |entry| {
        if let Meaning::Leaf(to, _) = entry.lookup.meaning {
            println!("{} leads to {to} at {}", entry.input, entry.lookup.level);
        }
        if entry.input < VirtAddr::new(0x8020_7000) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;

    let collapse = [Change::Collapse { from: from.clone() }];
    table.plan(&collapse, Some(&licence))?.apply(&mut reserve, &mut gather)?;
    table.plan(&[Change::Unmap { from }], None)?.apply(&mut reserve, &mut gather)?;
    let mut retired = gather.finish(&machine);
    while let Some(page) = retired.take(&machine) {
        reserve.add(&machine, page);
    }
    println!("{} tables are in the reserve again", reserve.count());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}

/// What the page shows of this crate stands in this file, line by line and in order.
#[test]
fn the_page_shows_these_lines() {
    let page = include_str!("../docs/migrating-from-aarch64-paging.md");
    let blocks: Vec<_> = page.split("```rust\n").filter_map(|block| block.strip_prefix("// pagetable\n")).collect();
    assert!(blocks.len() >= 5);
    let mut source = include_str!("migrated.rs").lines().map(str::trim);
    for line in blocks.iter().flat_map(|block| block.lines().take_while(|line| *line != "```")).map(str::trim) {
        assert!(line.is_empty() || source.any(|held| held == line), "`{line}` is not in the example, or not here");
    }
}
