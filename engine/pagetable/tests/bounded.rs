//! A page table that is bounded: no change makes a leaf that the bound does not allow, whatever it does to what was mapped.

use crate::common;

use common::{GIB, KERNEL, MIB, Table, change, each_licence, leaves, live, map, read_only, unmap};
use vellum_pagetable::{Change, Licence, Memory, Reserve};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, Stage1Attributes, VirtAddr};

fn range(from: u64, bytes: u64) -> core::ops::Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(from + bytes)
}

/// Everything there, leaf by leaf, is allowed.
fn assert_bounded<G: Granule>(table: &Table<'_, G>, bound: LeafSize, after: &str) {
    for (start, bytes, descriptor) in leaves(table) {
        let level = Level::ALL.into_iter().find(|&level| G::PAGE_SIZE.level_shift(level) == bytes.ilog2()).unwrap();
        let size = LeafSize { level, contiguous: descriptor.is_contiguous() };
        assert!(bound.allows(size), "{}: {size} at {start:#x} {after}, {bound} allowed", G::PAGE_SIZE);
    }
}

/// Maps as large as it goes, and does to parts of that what makes other leaves of it.
fn edit<G: Granule>(bound: LeafSize) {
    let (page, block) = (G::SIZE_BYTES, LeafSize::single(Level::L2).size_bytes(G::PAGE_SIZE));
    // Where blocks are allowed: two groups of them, which are not. Pages are many, so that there are fewer of them.
    let has_blocks = bound.allows(LeafSize::single(Level::L2));
    let bytes = if has_blocks { 2 * LeafSize::group(Level::L2).size_bytes(G::PAGE_SIZE) } else { 8 * block };
    each_licence(|licence| {
        let memory = Memory::new();
        let empty: Table<'_, G> = live(&memory, (if G::SHIFT == 12 { 39 } else { 42 }, Layout::Bits48), KERNEL, &[]);
        let mut table = empty.with_largest(bound);
        let all = range(0, bytes);
        let steps = [
            ("mapped", map(0, bytes, 0, LeafSize::LARGEST)),
            ("after a protection", read_only(page, page)),
            ("after a hole", unmap(block + page, page)),
            ("after a boundary", Change::Split { at: VirtAddr::new(2 * block + page) }),
            ("after a split", Change::SplitToPages { from: range(3 * block, page) }),
            ("hidden", Change::MakeInvalid { from: range(bytes / 2 + page, page) }),
            (
                "writable",
                Change::Protect {
                    from: range(0, block),
                    set: Stage1Attributes::empty(),
                    clear: Stage1Attributes::READ_ONLY,
                },
            ),
            ("folded", Change::Collapse { from: all }),
        ];
        for (after, step) in steps {
            change(&mut table, &memory, &[step], Some(licence));
            assert_bounded(&table, bound, after);
        }
        // The first block is alike all through, and the second has a hole.
        let fits = |size: &LeafSize| bound.allows(*size) && size.size_bytes(G::PAGE_SIZE) <= block;
        let expected = LeafSize::all(G::PAGE_SIZE, Layout::Bits48).find(fits);
        assert_eq!(table.view().translate(VirtAddr::new(0)).map(|found| found.size), expected, "{bound} folded");
    });
}

#[test]
fn no_change_makes_a_leaf_beyond_the_bound() {
    for bound in [LeafSize::PAGE, LeafSize::single(Level::L2), LeafSize::single(Level::L1), LeafSize::group(Level::L3)]
    {
        edit::<Granule4K>(bound);
        edit::<Granule16K>(bound);
        edit::<Granule64K>(bound);
    }
}

/// A block that was there before the bound splits into what the bound allows, at every level below it.
#[test]
fn what_was_larger_before_splits_as_far_as_the_bound() {
    for bound in [LeafSize::PAGE, LeafSize::single(Level::L2), LeafSize::group(Level::L3)] {
        for at in [0, 0x5000, GIB / 2, GIB - 0x1000] {
            let memory = Memory::new();
            let larger: Table<'_, Granule4K> =
                live(&memory, (39, Layout::Bits48), KERNEL, &[map(0, GIB, 0, LeafSize::LARGEST)]);
            let mut table = larger.with_largest(bound);
            change(&mut table, &memory, &[read_only(at, 0x1000)], Some(&Licence::break_before_make(&())));
            assert_bounded(&table, bound, "after a block of 1 GiB was split");
            let mapped: u64 = leaves(&table).iter().map(|(_, bytes, _)| bytes).sum();
            assert_eq!(mapped, GIB, "{bound}");
        }
    }
}

/// Without a bound a split leaves groups, so that the test above tests something.
#[test]
fn without_a_bound_a_split_leaves_groups() {
    let memory = Memory::new();
    let mut table: Table<'_, Granule4K> =
        live(&memory, (39, Layout::Bits48), KERNEL, &[map(0, 2 * MIB, 0, LeafSize::LARGEST)]);
    change(&mut table, &memory, &[read_only(0x5000, 0x1000)], Some(&Licence::break_before_make(&())));
    assert!(leaves(&table).iter().any(|(_, _, leaf)| leaf.is_contiguous()));
}

/// The change asks for less than the page table allows: it gets less.
#[test]
fn a_map_may_ask_for_less() {
    let memory = Memory::new();
    let mut table: Table<'_, Granule4K> =
        live(&memory, (39, Layout::Bits48), KERNEL, &[]).with_largest(LeafSize::group(Level::L2));
    change(&mut table, &memory, &[map(0, GIB + 0x1_0000, 0, LeafSize::single(Level::L1))], None);
    assert_bounded(&table, LeafSize::single(Level::L2), "mapped by single leaves");
    assert_eq!(table.view().translate(VirtAddr::new(0)).unwrap().size, LeafSize::single(Level::L2));
    assert_eq!(table.view().translate(VirtAddr::new(GIB)).unwrap().size, LeafSize::PAGE);
}

/// What edits a part is bounded as the page table is.
#[test]
fn a_part_is_bounded_as_its_page_table_is() {
    let memory = Memory::new();
    let mut table: Table<'_, Granule4K> = live(&memory, (39, Layout::Bits48), KERNEL, &[]).with_largest(LeafSize::PAGE);
    let mut reserve = Reserve::new();
    memory.supply::<Granule4K>(&mut reserve, 8);
    let mut gather = table.gather();
    let mut part = table.claim(VirtAddr::new(0), Level::L2, &mut reserve, &mut gather).unwrap();
    part.plan(&[map(0, 2 * MIB, 0, LeafSize::LARGEST)], None).unwrap().apply(&mut reserve, &mut gather).unwrap();
    let _ = gather.finish(&memory);
    assert_bounded(&table, LeafSize::PAGE, "in a part");
}
