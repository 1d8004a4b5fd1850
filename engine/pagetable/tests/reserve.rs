//! Every allocation fails in turn: whatever is wanted of whatever tables, with every number of tables too small, it is
//! refused, and tables, reserve and TLBs are as they were.

use crate::common;

use std::collections::BTreeSet;
use std::ops::Range;

use common::{DATA, KERNEL, each_licence};
use vellum_pagetable::{Change, El1, Licence, Memory, PageTable, Platform, Refusal, Rehearsal, Reserve};
use vellum_vmsa::{
    AddressHalf, Geometry, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, PhysAddr,
    Stage1Attributes, VirtAddr,
};

/// Leaf sizes to begin with.
fn sizes<G: Granule>() -> impl Iterator<Item = LeafSize> {
    LeafSize::all(G::PAGE_SIZE, Layout::Bits48).filter(|size| *size <= LeafSize::single(Level::L1))
}

/// Where everything begins: aligned to the largest of them.
fn base<G: Granule>() -> u64 {
    sizes::<G>().map(|size| size.size_bytes(G::PAGE_SIZE)).max().unwrap()
}

fn map(from: Range<u64>, largest: LeafSize) -> Change<El1> {
    let to = PhysAddr::new(from.start + (1 << 40));
    let attributes = DATA | Stage1Attributes::DBM;
    Change::Map { from: VirtAddr::new(from.start)..VirtAddr::new(from.end), to, attributes, largest }
}

/// Tables to begin with: none; leaves of each size; and such leaves kept.
fn beginnings<G: Granule>() -> Vec<Vec<Change<El1>>> {
    let mut beginnings = vec![vec![]];
    for size in sizes::<G>() {
        let bytes = size.size_bytes(G::PAGE_SIZE).max(8 * G::SIZE_BYTES);
        let range = base::<G>()..base::<G>() + bytes;
        let kept = VirtAddr::new(range.start)..VirtAddr::new(range.end);
        beginnings.push(vec![map(range.clone(), size)]);
        beginnings.push(vec![map(range, size), Change::MakeInvalid { from: kept }]);
    }
    beginnings
}

/// Every kind of change, of two pages amid what may be mapped, and of two that may be a hole; and pages where blocks would do.
fn wishes<G: Granule>() -> Vec<Change<El1>> {
    let range = |start: u64| {
        let start = base::<G>() + start * G::SIZE_BYTES;
        start..start + 2 * G::SIZE_BYTES
    };
    let mut wishes = vec![map(base::<G>() / 2 - G::SIZE_BYTES..base::<G>() / 2 + G::SIZE_BYTES, LeafSize::LARGEST)];
    let blocks = base::<G>()..base::<G>() + 2 * LeafSize::single(Level::L2).size_bytes(G::PAGE_SIZE);
    wishes.push(map(blocks.clone(), LeafSize::PAGE));
    wishes.push(Change::SplitToPages { from: VirtAddr::new(blocks.start)..VirtAddr::new(blocks.end) });
    for range in [range(5), range(8 * G::ENTRIES as u64 - 1)] {
        let from = VirtAddr::new(range.start)..VirtAddr::new(range.end);
        let (set, clear) = (Stage1Attributes::READ_ONLY, Stage1Attributes::empty());
        let (to, attributes, largest) = (PhysAddr::new(0), DATA, LeafSize::LARGEST);
        wishes.extend([
            map(range, LeafSize::PAGE),
            Change::Remap { from: from.clone(), to, attributes, largest },
            Change::Protect { from: from.clone(), set, clear },
            Change::Unmap { from: from.clone() },
            Change::UnmapMapped { from: from.clone() },
            Change::MakeInvalid { from: from.clone() },
            Change::MakeValid { from: from.clone() },
            Change::Age { from: from.clone() },
            Change::Clean { from: from.clone() },
            Change::Split { at: from.start },
            Change::SplitToPages { from: from.clone() },
            Change::Collapse { from },
        ]);
    }
    wishes
}

/// The name of the kind of a change.
fn kind(change: &Change<El1>) -> String {
    let text = format!("{change:?}");
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Plans `changes` with every number of tables up to what they need: what they need, or `None` if they are refused.
fn starve<G: Granule>(
    table: &mut PageTable<'_, G, El1, Memory>,
    memory: &Memory,
    changes: &[Change<El1>],
    licence: Option<&Licence<'_>>,
) -> Option<usize> {
    let needed = table.plan(changes, licence).ok()?.tables_needed();
    for count in 0..needed {
        let mut reserve = Reserve::new();
        memory.supply::<G>(&mut reserve, count);
        let _ = memory.take_steps();
        let mut gather = table.gather();
        let refusal = table.plan(changes, licence).unwrap().apply(&mut reserve, &mut gather);
        assert_eq!(refusal, Err(Refusal::ReserveShortBy(needed - count)), "{changes:?}");
        assert_eq!(memory.take_steps(), [], "a refusal changes something: {changes:?}");
        assert_eq!(reserve.count(), count);
        // Whole: every table that was put in comes out again, and no other.
        let taken: BTreeSet<_> = std::iter::from_fn(|| reserve.take(memory)).collect();
        assert_eq!((taken.len(), reserve.count()), (count, 0));
    }
    Some(needed)
}

/// The tables that a plan needs are enough: a rehearsal takes no more.
fn assert_enough<G: Granule>(
    table: &PageTable<'_, G, El1, Memory>,
    memory: &Memory,
    changes: &[Change<El1>],
    licence: &Licence<'_>,
) {
    let rehearsal = Rehearsal::new(memory);
    let mut rehearsed = table.over(&rehearsal);
    let Ok(mut plan) = rehearsed.plan(changes, Some(licence)) else { return };
    let mut reserve = Reserve::new();
    memory.supply::<G>(&mut reserve, plan.tables_needed());
    let mut gather = plan.gather();
    plan.apply(&mut rehearsal.reserve(&reserve), &mut gather).unwrap();
    let _ = gather.finish(&rehearsal);
}

fn check<G: Granule>(bits: u32, layout: Layout) {
    let geometry = Geometry::<G>::new(bits, layout, AddressHalf::Lower).unwrap();
    let mut hungry = BTreeSet::new();
    for beginning in beginnings::<G>() {
        let memory = Memory::new();
        let mut reserve = Reserve::new();
        memory.supply::<G>(&mut reserve, 9);
        let mut offline = PageTable::offline(&memory, geometry, KERNEL, &mut reserve).unwrap();
        for change in beginning {
            let mut gather = offline.gather();
            offline.plan(&[change], None).unwrap().apply(&mut reserve, &mut gather).unwrap();
            let _ = gather.finish(&memory);
        }
        let mut live = PageTable::live(&memory, geometry, KERNEL, offline.root()).unwrap();
        let before = memory.descriptors();
        let wishes = wishes::<G>();
        // Each alone, and each with one that fits beside it.
        let lists = wishes.iter().map(|wish| vec![wish.clone()]);
        let lists = lists.chain(wishes[1..].iter().map(|wish| vec![wish.clone(), wishes[0].clone()]));
        for list in lists {
            let mut needed = starve(&mut offline, &memory, &list, None).max(starve(&mut live, &memory, &list, None));
            let licence = Licence::break_before_make(&());
            needed = needed.max(starve(&mut live, &memory, &list, Some(&licence)));
            if let [alone] = &list[..] {
                assert_enough(&live, &memory, &list, &licence);
                each_licence(|licence| needed = needed.max(starve(&mut live, &memory, &list, Some(licence))));
                if needed > Some(0) {
                    hungry.insert(kind(alone));
                }
            }
        }
        assert!(before.iter().all(|(slot, held)| memory.load(*slot) == *held), "tables are not as they were");
    }
    let all: BTreeSet<_> = wishes::<G>().iter().map(kind).filter(|kind| kind != "Collapse").collect();
    assert_eq!(hungry, all, "every kind of change but a collapse takes tables somewhere");
}

#[test]
fn tables_of_4k_are_never_missed_too_late() {
    check::<Granule4K>(39, Layout::Bits48);
    check::<Granule4K>(52, Layout::Lpa2);
}

#[test]
fn tables_of_16k_are_never_missed_too_late() {
    check::<Granule16K>(47, Layout::Bits48);
}

#[test]
fn tables_of_64k_are_never_missed_too_late() {
    check::<Granule64K>(48, Layout::Bits48);
}
