//! Leaves side by side whose output addresses go beyond the bits that stand together in a descriptor (LPA: 2^48, LPA2: 2^50).

use crate::common;

use common::{DATA, change, leaves, map, offline};
use vellum_pagetable::{Memory, Platform};
use vellum_vmsa::{
    AddressHalf, Descriptor, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, VirtAddr,
};

/// The leaf of `level` that leads to `output`, by the manual (D8.3.1).
fn leaf(layout: Layout, level: Level, output: u64, contiguous: bool) -> Descriptor {
    let kind = if level == Level::L3 { 3 } else { 1 };
    let place = match layout {
        Layout::Bits48 => output,
        Layout::Lpa => output & 0xffff_ffff_ffff | (output >> 48) << 12,
        Layout::Lpa2 => output & 0x3_ffff_ffff_ffff | (output >> 50) << 8,
    };
    let shareability = if layout == Layout::Lpa2 { 3 << 8 } else { 0 };
    Descriptor::new(place | DATA.bits() & !shareability | u64::from(contiguous) << 52 | kind)
}

/// Three leaves before a group, seven groups, and two leaves behind, of which the fourth group begins at `top`.
fn check<G: Granule>(layout: Layout, level: Level, top: u64) {
    let (bytes, group) = (1 << G::PAGE_SIZE.level_shift(level), LeafSize::group(level).size_bytes(G::PAGE_SIZE));
    let (before, count) = (3 * bytes, 7 * group / bytes + 5);
    let (start, to) = (2 * group - before, top - 3 * group - before);
    for largest in [LeafSize::group(level), LeafSize::single(level)] {
        let memory = Memory::new();
        let mut table = offline::<G>(&memory, 42, layout);
        change(&mut table, &memory, &[map(start, count * bytes, to, largest)], None);
        let is_group = |at: u64| largest.contiguous && (before..before + 7 * group).contains(&at);
        let expected: Vec<_> = (0..count)
            .map(|number| number * bytes)
            .map(|at| (start + at, bytes, leaf(layout, level, to + at, is_group(at))))
            .collect();
        assert!(leaves(&table) == expected, "{layout:?} {level} {largest} at {top:#x}");
        for at in [0, before + 3 * group - 1, before + 3 * group, count * bytes - 1] {
            assert_eq!(table.view().translate(VirtAddr::new(start + at)).unwrap().output.bits(), to + at);
        }
    }
}

#[test]
fn leaves_lead_on_where_the_bits_of_their_output_part() {
    for level in [Level::L2, Level::L3] {
        check::<Granule64K>(Layout::Lpa, level, 1 << 48);
        check::<Granule64K>(Layout::Lpa, level, 3 << 48);
        for top in [1 << 48, 1 << 50, 1 << 51] {
            check::<Granule4K>(Layout::Lpa2, level, top);
            check::<Granule16K>(Layout::Lpa2, level, top);
        }
        check::<Granule4K>(Layout::Bits48, level, 1 << 47);
    }
}

/// A run of which the last leaf alone lies beyond.
#[test]
fn the_last_leaf_of_a_run_leads_on() {
    for top in [1 << 48, 1 << 50] {
        let (memory, to) = (Memory::new(), top - 0x4000);
        let mut table = offline::<Granule4K>(&memory, 42, Layout::Lpa2);
        change(&mut table, &memory, &[map(0x3000, 0x5000, to, LeafSize::PAGE)], None);
        let page = |at| (0x3000 + at, 0x1000, leaf(Layout::Lpa2, Level::L3, to + at, false));
        assert!(leaves(&table).into_iter().eq([0, 0x1000, 0x2000, 0x3000, 0x4000].map(page)));
    }
}

/// A block above 2^50 of which a page is protected: a table of the same outputs.
#[test]
fn a_block_above_the_parting_bits_becomes_pages_there() {
    let (memory, to) = (Memory::new(), (1 << 50) + (7 << 21));
    let mut table = offline::<Granule4K>(&memory, 42, Layout::Lpa2);
    change(&mut table, &memory, &[map(0, 2 << 20, to, LeafSize::single(Level::L2))], None);
    let mut table = table.with_largest(LeafSize::PAGE);
    change(&mut table, &memory, &[common::read_only(0x5000, 0x1000)], None);
    let expected = (0..512).map(|number| {
        let read_only = if number == 5 { 1 << 7 } else { 0 };
        let page = leaf(Layout::Lpa2, Level::L3, to + number * 0x1000, false);
        (number * 0x1000, 0x1000, Descriptor::new(page.bits() | read_only))
    });
    assert!(leaves(&table).into_iter().eq(expected));
}

/// Five levels: the way to an address has as many descriptors, whatever byte of the page it is.
#[test]
fn the_longest_way_is_told_whole() {
    let memory = Memory::new();
    let mut table = offline::<Granule4K>(&memory, 52, Layout::Lpa2);
    assert_eq!(Geometry::<Granule4K>::new(52, Layout::Lpa2, AddressHalf::Lower).unwrap().start(), Level::MINUS_1);
    change(&mut table, &memory, &[map(0, 0x2000, 1 << 51, LeafSize::PAGE)], None);
    for at in [0, 1, 0xfff, 0x1fff] {
        let levels: Vec<_> = table.view().path(VirtAddr::new(at)).map(|lookup| lookup.level).collect();
        assert_eq!(levels, Level::ALL, "{at:#x}");
    }
}

/// Bit 52 of a leaf means nothing at a level that has no groups.
#[test]
fn a_block_of_no_group_is_a_block() {
    let memory = Memory::new();
    let mut table = offline::<Granule64K>(&memory, 48, Layout::Lpa);
    change(&mut table, &memory, &[map(0, 1 << 42, 1 << 48, LeafSize::LARGEST)], None);
    let lookup = table.view().path(VirtAddr::new(0)).last().unwrap();
    memory.store(lookup.slot, Descriptor::new(lookup.descriptor.bits() | Descriptor::CONTIGUOUS));
    let found = table.view().translate(VirtAddr::new(0x1234)).unwrap();
    assert_eq!((found.size, found.output.bits()), (LeafSize::single(Level::L1), (1 << 48) + 0x1234));
}
