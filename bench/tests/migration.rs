//! The peer's half of `docs/migrating-from-aarch64-paging.md`, as it stands there, beside the engine's: after each step both
//! have the same leaves.

use aarch64_paging::descriptor::El1Attributes;
use aarch64_paging::idmap::IdMap;
use aarch64_paging::paging::{El1And0, MemoryRegion};
use pagetable::{Change, El1, HardwareUpdates, Licence, Memory, PageTable, Reserve, Scope, TlbFeatures};
use vmsa::{AddressHalf, Geometry, Granule4K, Layout, LeafSize, Level, PageSize, PhysAddr, Stage1Attributes, VirtAddr};

const PAGE: usize = 0x1000;
const START: usize = 0x8020_0000;
const END: usize = 0x8040_0000;

/// Of each page that is mapped: its address, where it leads, and the descriptor's attributes.
type Pages = Vec<(u64, u64, u64)>;

/// Attributes of a leaf of any level. The Contiguous bit is not among them: it is the crates' own affair.
fn attributes(bits: u64) -> u64 {
    Layout::Bits48.attribute_mask(PageSize::Size4K, Level::L3) & bits
}

/// Pages that only one of both has, or that differ.
fn differing(one: &Pages, other: &Pages) -> Pages {
    let lacks = |pages: &Pages, page| !pages.contains(page);
    let (first, second) = (one.iter().filter(|page| lacks(other, page)), other.iter().filter(|page| lacks(one, page)));
    first.chain(second).copied().collect()
}

fn theirs(idmap: &IdMap<El1And0>) -> Pages {
    let mut pages = Pages::new();
    for page in (START..END).step_by(PAGE) {
        let region = MemoryRegion::new(page, page + PAGE);
        let walked = idmap.walk_range(&region, &mut |_, descriptor, level| {
            if descriptor.is_valid() {
                let within = page & ((PAGE << ((3 - level) * 9)) - 1);
                let bits = descriptor.flags().bits() as u64;
                pages.push((page as u64, (descriptor.output_address().0 + within) as u64, attributes(bits)));
            }
            Ok(())
        });
        walked.expect("the range is the map's");
    }
    pages
}

fn ours(table: &PageTable<'_, Granule4K, El1, Memory>) -> Pages {
    let translate = |page: usize| {
        let found = table.view().translate(VirtAddr::new(page as u64))?;
        Some((page as u64, found.output.bits(), attributes(found.descriptor.bits())))
    };
    (START..END).step_by(PAGE).filter_map(translate).collect()
}

#[test]
fn both_halves_of_the_migration_page_make_the_same_leaves() {
    let mut idmap = IdMap::with_asid(1, 1, El1And0);
    let region = MemoryRegion::new(START, END);
    let normal = El1Attributes::ATTRIBUTE_INDEX_1 | El1Attributes::INNER_SHAREABLE;
    let flags = normal | El1Attributes::NON_GLOBAL | El1Attributes::ACCESSED | El1Attributes::VALID;
    idmap.map_range(&region, flags).expect("a range that is free");

    let machine = Memory::new();
    let mut reserve = Reserve::new();
    machine.supply::<Granule4K>(&mut reserve, 8);
    let geometry = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).expect("39 bits");
    let regime = El1 { scope: Scope::Asid(1), tlb: TlbFeatures::default(), hardware_updates: HardwareUpdates::None };
    let mut table = PageTable::offline(&machine, geometry, regime, &mut reserve).expect("a root");
    let mut change = |table: &mut PageTable<'_, Granule4K, El1, Memory>, change| {
        let (changes, licence) = ([change], Licence::break_before_make(&()));
        let mut gather = table.gather();
        table.plan(&changes, Some(&licence)).expect("sound").apply(&mut reserve, &mut gather).expect("enough");
        let _ = gather.finish(&machine);
    };
    let normal = Stage1Attributes::memory(1) | Stage1Attributes::INNER_SHAREABLE;
    let attributes = normal | Stage1Attributes::NOT_GLOBAL | Stage1Attributes::AF;
    let from = VirtAddr::new(START as u64)..VirtAddr::new(END as u64);
    let to = PhysAddr::new(START as u64);
    change(&mut table, Change::Map { from: from.clone(), to, attributes, largest: LeafSize::LARGEST });
    let mut table = table.publish();
    let mapped = ours(&table);
    assert_eq!((mapped.len(), differing(&mapped, &theirs(&idmap))), ((END - START) / PAGE, vec![]));

    let page = MemoryRegion::new(0x8020_5000, 0x8020_6000);
    let read_only = idmap.modify_range(&page, &|_, descriptor| {
        descriptor.modify_flags(El1Attributes::READ_ONLY, El1Attributes::empty())
    });
    read_only.expect("the map is not in use");
    let page = VirtAddr::new(0x8020_5000)..VirtAddr::new(0x8020_6000);
    let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
    change(&mut table, Change::Protect { from: page, set, clear });
    assert_eq!(differing(&ours(&table), &theirs(&idmap)), vec![]);
    assert_eq!(differing(&ours(&table), &mapped).len(), 2, "one page, before and after");

    idmap.map_range(&region, El1Attributes::empty()).expect("what was mapped");
    idmap.compact_subtables();
    change(&mut table, Change::Unmap { from });
    assert_eq!((ours(&table).len(), theirs(&idmap).len()), (0, 0));
}
