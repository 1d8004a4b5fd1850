//! One bit at a time: what changes it alone makes TLBs forget, and what differs in it alone is not folded.

use crate::common;

use common::regimes::Drawn;
use common::tlbi::Watched;
use common::walkers::{Beside, Walkers};
use common::{Table, change, leaves, live_at};
use vellum_pagetable::{
    Change, El1, El2, El2And0, HardwareUpdates, Licence, Memory, Platform, Regime, Slot, Stage2, Step, TlbFeatures,
};
use vellum_vmsa::{
    Descriptor, Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, Maintenance, PhysAddr,
};

const AF: u64 = 1 << 10;
const DBM: u64 = 1 << 51;
const WRITE: u64 = 1 << 7;
/// Software's own, bits 58:55.
const SOFTWARE: u64 = 0b1111 << 55;
const HINTS: TlbFeatures = TlbFeatures { range: false, level_hints: true, repeat: false };

/// A stretch of so many bytes, aligned to the largest leaf.
fn range<A: From<u64>>(from: u64, bytes: u64) -> std::ops::Range<A> {
    (1 << 36 | from).into()..((1 << 36) + from + bytes).into()
}

/// A live page table that holds leaves of this size with these attributes.
fn table<G: Granule, R: Drawn>(
    memory: &Memory,
    layout: Layout,
    regime: R,
    (bytes, largest): (u64, LeafSize),
    attributes: u64,
) -> Table<'_, G, R> {
    let (attributes, to) = (R::attributes(attributes), PhysAddr::new(1 << 38));
    let setup = [Change::Map { from: range(0, bytes), to, attributes, largest }];
    live_at(memory, R::shape::<G>(40, layout, 0).unwrap(), regime, &setup)
}

fn is_tlbi(step: &Step) -> bool {
    matches!(step, Step::Maintain(Maintenance::Invalidate(..)))
}

/// Bits that an attribute can be, of these descriptors.
fn bits<G: Granule, R: Regime>(layout: Layout) -> Vec<u64> {
    let mask = layout.attribute_mask(G::PAGE_SIZE, Level::L3) & !R::ABSENT;
    (0..64).map(|bit| 1 << bit).filter(|bit| mask & bit != 0).collect()
}

/// Sets and clears each bit that may change in place, of a page, of pages, of a group and of a block.
fn check_in_place<R: Drawn + Watched>(hardware: HardwareUpdates) {
    let regime = R::drawn(HINTS, hardware, 2);
    let licence = Licence::break_before_make(&());
    let in_place = bits::<Granule4K, R>(Layout::Bits48).into_iter().filter(|bit| regime.tag().in_place() & bit != 0);
    let sizes = [
        (0x1000, LeafSize::PAGE),
        (0x3000, LeafSize::PAGE),
        (0x1_0000, LeafSize::group(Level::L3)),
        (0x20_0000, LeafSize::single(Level::L2)),
    ];
    for bit in in_place {
        for (bytes, largest) in sizes {
            for is_set in [true, false] {
                for rest in [AF, 0] {
                    let old = rest & !bit | if is_set { 0 } else { bit };
                    let memory = Memory::new();
                    let mut table = table::<Granule4K, R>(&memory, Layout::Bits48, regime, (bytes, largest), old);
                    let mut walkers = Walkers::of(&table, &memory, Beside::InPlace);
                    let (set, clear) = if is_set { (bit, 0) } else { (0, bit) };
                    let (set, clear) = (R::attributes(set), R::attributes(clear));
                    let (steps, _) = change(
                        &mut table,
                        &memory,
                        &[Change::Protect { from: range(0, bytes), set, clear }],
                        Some(&licence),
                    );
                    walkers.follow(&steps);
                    walkers.check();
                    // What no TLB holds or looks at needs no TLBI; a group gets its own, for its members are broken.
                    let is_cached = old & AF != 0 || hardware != HardwareUpdates::None;
                    let is_due = is_cached && bit & SOFTWARE == 0 || largest.contiguous;
                    assert_eq!(steps.iter().any(is_tlbi), is_due, "{bit:#x} of {old:#x}, {bytes:#x} bytes");
                    assert!(leaves(&table).iter().all(|leaf| leaf.2.bits() & bit == if is_set { bit } else { 0 }));
                }
            }
        }
    }
}

#[test]
fn every_bit_that_changes_in_place_is_forgotten() {
    for hardware in [HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState] {
        check_in_place::<El1>(hardware);
        check_in_place::<El2And0>(hardware);
        check_in_place::<El2>(hardware);
        check_in_place::<Stage2>(hardware);
    }
}

/// Leaves that might fold differ in one bit at one place: they do not, unless it is a mark of hardware's.
fn check_fold<G: Granule, R: Drawn>(
    layout: Layout,
    hardware: HardwareUpdates,
    managed: u64,
    places: impl Fn(usize) -> Vec<usize>,
    bytes: u64,
) {
    let regime = R::drawn(HINTS, hardware, 2);
    let licence = Licence::break_before_make(&());
    let memory = Memory::new();
    let mut table = table::<G, R>(&memory, layout, regime, (bytes, LeafSize::PAGE), managed);
    let marks = regime.marks(managed);
    let before = leaves(&table);
    let slots: Vec<Slot> = before.iter().map(|leaf| table.view().path(leaf.0.into()).last().unwrap().slot).collect();
    // Of a mark it is the larger truth that stays, and what is folded cannot be compared again.
    let bits = bits::<G, R>(layout).into_iter().filter(|bit| bit & marks == 0);
    for bit in bits.chain([1 << 41]) {
        for place in places(before.len()) {
            let old = before[place].2;
            memory.store(slots[place], Descriptor::new(old.bits() ^ bit));
            let _ = memory.take_steps();
            let collapse = [Change::Collapse { from: range(0, bytes) }];
            let (steps, _) = change(&mut table, &memory, &collapse, Some(&licence));
            let kept = leaves(&table);
            let group = 1 << G::PAGE_SIZE.contiguous_shift(Level::L3).unwrap();
            let first = place / group * group;
            let is_apart = kept.len() == before.len()
                && (0..group.min(kept.len())).all(|number| !kept[first + number].2.is_contiguous());
            assert!(is_apart, "{bit:#x} of number {place} of {} is folded away: {} steps", before.len(), steps.len());
            assert_eq!(kept[place].2.bits(), old.bits() ^ bit);
            memory.store(slots[place], old);
            // The other groups are pages again.
            before.iter().zip(&slots).for_each(|(leaf, slot)| memory.store(*slot, leaf.2));
        }
    }
}

/// Every place of a group; of a table the first two, the middle and the last two.
fn check_folds<G: Granule, R: Drawn>(layout: Layout) {
    let group = LeafSize::group(Level::L3).size_bytes(G::PAGE_SIZE);
    let block = LeafSize::single(Level::L2).size_bytes(G::PAGE_SIZE);
    let (none, some, all) = (HardwareUpdates::None, HardwareUpdates::AccessFlag, HardwareUpdates::DirtyState);
    for (hardware, managed) in
        [(none, AF | DBM), (some, AF | DBM), (some, AF), (all, AF), (all, AF | DBM), (all, AF | DBM | WRITE)]
    {
        check_fold::<G, R>(layout, hardware, managed, |count| (0..count).collect(), group);
        if managed == AF | DBM {
            let some = |count: usize| vec![0, 1, count / 2, count - 1];
            check_fold::<G, R>(layout, hardware, managed, some, block);
        }
    }
}

#[test]
fn no_bit_of_any_member_is_folded_away() {
    check_folds::<Granule4K, El1>(Layout::Bits48);
    check_folds::<Granule4K, El2>(Layout::Bits48);
    check_folds::<Granule4K, El2And0>(Layout::Lpa2);
    check_folds::<Granule4K, Stage2>(Layout::Bits48);
}

#[test]
fn no_bit_of_any_member_of_16k_and_64k_is_folded_away() {
    let group = |size| LeafSize::group(Level::L3).size_bytes(size);
    check_fold::<Granule16K, El1>(
        Layout::Bits48,
        HardwareUpdates::AccessFlag,
        AF,
        |count| (0..count).collect(),
        group(Granule16K::PAGE_SIZE),
    );
    check_fold::<Granule64K, Stage2>(
        Layout::Bits48,
        HardwareUpdates::AccessFlag,
        AF,
        |count| (0..count).collect(),
        group(Granule64K::PAGE_SIZE),
    );
}
