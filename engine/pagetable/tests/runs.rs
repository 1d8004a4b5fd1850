//! `for_each_run` gives what `for_each` gives of leaves, many at a time.

use crate::common;

use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use common::{GIB, KERNEL, MIB, Table, live, map, read_only};
use vellum_pagetable::{Change, Memory};
use vellum_vmsa::{Granule, Granule4K, Granule64K, Layout, LeafSize, Level, Meaning, VirtAddr};

const PAGE: u64 = 0x1000;

/// Where a leaf is, log2 of its bytes, its descriptor.
type Leaf = (u64, u32, u64);

fn range(from: u64, to: u64) -> Range<VirtAddr> {
    VirtAddr::new(from)..VirtAddr::new(to)
}

fn each<G: Granule>(table: &Table<'_, G>, range: Range<VirtAddr>) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let _ = table.view().for_each::<Infallible>(range, |entry| {
        if let Meaning::Leaf(..) = entry.lookup.meaning {
            leaves.push((entry.input.bits(), entry.shift, entry.lookup.descriptor.bits()));
        }
        ControlFlow::Continue(())
    });
    leaves
}

/// The runs, and the leaves that they are.
fn runs<G: Granule>(table: &Table<'_, G>, range: Range<VirtAddr>) -> (Vec<usize>, Vec<Leaf>) {
    let (mut runs, mut leaves) = (Vec::new(), Vec::new());
    let _ = table.view().for_each_run::<Infallible>(range, |entry, count| {
        runs.push(count);
        let (first, bits) = (entry.input.bits(), entry.lookup.descriptor.bits());
        let of = |number: u64| (first + (number << entry.shift), entry.shift, bits + (number << entry.shift));
        leaves.extend((0..count as u64).map(of));
        ControlFlow::Continue(())
    });
    (runs, leaves)
}

/// Groups and pages, a hole, pages that lead elsewhere or say something else, blocks; pages at the end of one table and in the next.
fn setup() -> Vec<Change<vellum_pagetable::El1>> {
    vec![
        map(0, 40 * PAGE, GIB, LeafSize::LARGEST),
        map(64 * PAGE, 3 * PAGE, 2 * GIB, LeafSize::PAGE),
        map(67 * PAGE, 2 * PAGE, 3 * GIB, LeafSize::PAGE),
        map(100 * PAGE, 20 * PAGE, 4 * GIB, LeafSize::PAGE),
        map(2 * MIB, 6 * MIB, 8 * GIB, LeafSize::single(Level::L2)),
        map(10 * MIB - PAGE, 2 * PAGE, 16 * GIB, LeafSize::PAGE),
    ]
}

#[test]
fn runs_are_leaves_many_at_a_time() {
    for layout in [Layout::Bits48, Layout::Lpa2] {
        let memory = Memory::new();
        let mut table = live::<Granule4K, _>(&memory, (39, layout), KERNEL, &setup());
        common::change(&mut table, &memory, &[read_only(110 * PAGE, PAGE)], None);
        let (told, leaves) = runs(&table, table.view().range());
        // The last eight pages of 40 are of no group.
        assert_eq!(told, [32, 8, 3, 2, 10, 1, 9, 3, 1, 1]);
        assert_eq!(leaves, each(&table, table.view().range()));
        for (from, to) in [(0, 0), (PAGE, 5 * PAGE), (30 * PAGE, 66 * PAGE), (3 * MIB, 5 * MIB), (MIB, 10 * MIB)] {
            assert_eq!(runs(&table, range(from, to)).1, each(&table, range(from, to)), "{from:#x}..{to:#x}");
        }
    }
    let memory = Memory::new();
    let table = live::<Granule64K, _>(&memory, (42, Layout::Bits48), KERNEL, &[map(0, 4 * MIB, 0, LeafSize::LARGEST)]);
    assert_eq!(runs(&table, range(0, 4 * MIB)), (vec![64], each(&table, range(0, 4 * MIB))));
}

#[test]
fn it_ends_where_it_is_broken_off_and_refuses_as_the_other_does() {
    let memory = Memory::new();
    let table = live::<Granule4K, _>(&memory, (39, Layout::Bits48), KERNEL, &setup());
    let broken = table.view().for_each_run(table.view().range(), |entry, count| match count {
        3 => ControlFlow::Break(entry.input.bits()),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(broken.map(ControlFlow::break_value), Ok(Some(64 * PAGE)));
    let end = table.geometry().input_bytes();
    for refused in [range(2 * PAGE, PAGE), range(0, 2 * end), range(end, 2 * end)] {
        let runs = table.view().for_each_run::<Infallible>(refused.clone(), |_, _| ControlFlow::Continue(()));
        let each = table.view().for_each::<Infallible>(refused, |_| ControlFlow::Continue(()));
        assert_eq!(runs.err(), each.err());
        assert!(runs.is_err());
    }
}
