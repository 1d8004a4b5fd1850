//! Neighbours of unlike shapes in one gather: pages beside a block, a group beside an unlinked table, a block that is split
//! beside what stays whole. Whatever is forgotten as one range, no TLB keeps any of it.

use crate::common;

use std::ops::Range;

use common::regimes::Drawn;
use common::tlbi::Watched;
use common::walkers::{Beside, Walkers};
use common::{DATA, change, each_licence, leaves};
use vellum_pagetable::{
    Change, El1, Gather, HardwareUpdates, Licence, Memory, PageTable, Reserve, Stage2, TlbFeatures,
};
use vellum_vmsa::{Granule, Granule4K, Granule16K, Granule64K, Layout, LeafSize, Level, PhysAddr};

/// What stands on one side of a boundary.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    /// A leaf, or a contiguous group.
    Leaf(LeafSize),
    /// Three single pages.
    Pages,
    /// A table of level 3 that holds the page farthest from the boundary alone, and goes whole.
    Table,
    /// A block of which the page at the boundary is changed alone.
    Split(LeafSize),
}

const PAGE: LeafSize = LeafSize::PAGE;
const GROUP: LeafSize = LeafSize::group(Level::L3);
const BLOCK: LeafSize = LeafSize::single(Level::L2);
const BLOCKS: LeafSize = LeafSize::group(Level::L2);
const HUGE: LeafSize = LeafSize::single(Level::L1);

const SHAPES: [Shape; 10] = [
    Shape::Leaf(PAGE),
    Shape::Pages,
    Shape::Leaf(GROUP),
    Shape::Split(GROUP),
    Shape::Leaf(BLOCK),
    Shape::Split(BLOCK),
    Shape::Table,
    Shape::Leaf(BLOCKS),
    Shape::Split(BLOCKS),
    Shape::Leaf(HUGE),
];

impl Shape {
    fn bytes<G: Granule>(self) -> u64 {
        match self {
            Self::Leaf(size) | Self::Split(size) => size.size_bytes(G::PAGE_SIZE),
            Self::Pages => 3 * G::SIZE_BYTES,
            Self::Table => BLOCK.size_bytes(G::PAGE_SIZE),
        }
    }

    /// What a boundary is to be a multiple of.
    fn align<G: Granule>(self) -> u64 {
        if self == Self::Pages { G::SIZE_BYTES } else { self.bytes::<G>() }
    }

    /// What is mapped of a stretch with the boundary at its end or at its start, and what is changed.
    fn ranges<G: Granule>(self, all: Range<u64>, is_left: bool) -> (Range<u64>, LeafSize, Range<u64>) {
        let page = G::SIZE_BYTES;
        let (first, last) = (all.start..all.start + page, all.end - page..all.end);
        let (near, far) = if is_left { (last, first) } else { (first, last) };
        match self {
            Self::Leaf(size) => (all.clone(), size, all),
            Self::Pages => (all.clone(), PAGE, all),
            Self::Table => (far, PAGE, all),
            Self::Split(size) => (all, size, near),
        }
    }
}

/// How what is changed is changed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Deed {
    Unmap,
    Protect,
    Hide,
}

fn at<R: Drawn>(range: &Range<u64>) -> Range<R::Input> {
    range.start.into()..range.end.into()
}

fn map<R: Drawn>(range: &Range<u64>, largest: LeafSize) -> Change<R> {
    let attributes = R::attributes(DATA.bits() & !(0b11 << 53) | R::PLAYED[1]);
    Change::Map { from: at::<R>(range), to: PhysAddr::new(range.start | 1 << 40), attributes, largest }
}

fn deed<R: Drawn>(range: &Range<u64>, deed: Deed) -> Change<R> {
    let from = at::<R>(range);
    match deed {
        Deed::Unmap => Change::Unmap { from },
        // Bit 7, of either stage.
        Deed::Protect => Change::Protect { from, set: R::attributes(0), clear: R::attributes(R::PLAYED[1]) },
        Deed::Hide => Change::MakeInvalid { from },
    }
}

struct Case<'m, G: Granule, R: Drawn + Watched> {
    memory: &'m Memory,
    table: PageTable<'m, G, R, Memory>,
    reserve: Reserve,
}

impl<G: Granule, R: Drawn + Watched> Case<'_, G, R> {
    /// Makes changes within a gather, if they are not refused.
    fn make(&mut self, changes: &[Change<R>], licence: &Licence<'_>, gather: &mut Gather<G, R>) {
        let Ok(mut plan) = self.table.plan(changes, Some(licence)) else { return };
        self.memory.supply::<G>(&mut self.reserve, plan.tables_needed());
        plan.apply(&mut self.reserve, gather).unwrap();
    }
}

/// Two shapes at a boundary, and what is done to each: by one change of both, by a list, or by two plans of one gather.
fn check<G: Granule, R: Drawn + Watched>(
    tlb: TlbFeatures,
    bits: (u32, Layout),
    boundary: u64,
    shapes: [Shape; 2],
    deeds: [Deed; 2],
) {
    let beside = [Beside::InPlace, Beside::Groups, Beside::Sizes, Beside::Anything];
    let mut number = 0;
    let is_split = shapes.iter().any(|shape| matches!(shape, Shape::Split(_)));
    each_licence(|licence| {
        // By the first one change of both is made, by the second a list, by the others two plans.
        if number > 1 && !is_split {
            return;
        }
        let memory = Memory::new();
        let stretch = [boundary - shapes[0].bytes::<G>()..boundary, boundary..boundary + shapes[1].bytes::<G>()];
        let sides = [0, 1].map(|side| shapes[side].ranges::<G>(stretch[side].clone(), side == 0));
        let setup: Vec<Change<R>> = sides.iter().map(|(mapped, largest, _)| map(mapped, *largest)).collect();
        let geometry = R::shape::<G>(bits.0, bits.1, 0).unwrap();
        let mut table = common::live_at(&memory, geometry, R::drawn(tlb, HardwareUpdates::None, 6), &[]);
        // Side by side, so that they are neither of one group nor of one block.
        setup.iter().for_each(|one| drop(change(&mut table, &memory, std::slice::from_ref(one), None)));
        assert_eq!(
            leaves(&table).iter().map(|leaf| leaf.1).sum::<u64>(),
            sides.iter().map(|it| it.0.end - it.0.start).sum()
        );
        let changes = [0, 1].map(|side| deed::<R>(&sides[side].2, deeds[side]));
        let mut walkers = Walkers::of(&table, &memory, beside[number]);
        let (mut gather, reserve) = (table.gather(), Reserve::new());
        let mut case = Case { memory: &memory, table, reserve };
        let whole = deed::<R>(&(sides[0].2.start..sides[1].2.end), deeds[0]);
        let is_one = deeds[0] == deeds[1] && sides[0].2.end == sides[1].2.start;
        match number {
            0 | 2 if is_one => case.make(&[whole], licence, &mut gather),
            1 => case.make(&changes, licence, &mut gather),
            _ => changes.iter().for_each(|one| case.make(std::slice::from_ref(one), licence, &mut gather)),
        }
        let _ = gather.finish(&memory);
        walkers.follow(&memory.take_steps());
        walkers.check();
        number += 1;
    });
}

/// Every two shapes at every kind of boundary that they can stand at.
fn check_all<G: Granule, R: Drawn + Watched>(
    tlb: TlbFeatures,
    bits: (u32, Layout),
    shapes: &[Shape],
    deeds: &[[Deed; 2]],
) {
    // At a border of tables of level 2, of tables of level 3, and within one.
    let [huge, block, group] = [HUGE, BLOCK, GROUP].map(|size| size.size_bytes(G::PAGE_SIZE));
    for boundary in [3 * huge, huge + 3 * block, huge + 3 * group] {
        let fit = || shapes.iter().filter(|shape| boundary.is_multiple_of(shape.align::<G>()));
        for (left, right) in fit().flat_map(|left| fit().map(move |right| (*left, *right))) {
            deeds.iter().for_each(|deeds| check::<G, R>(tlb, bits, boundary, [left, right], *deeds));
        }
    }
}

const HINTS: TlbFeatures = TlbFeatures { range: false, level_hints: true, repeat: false };
const RANGES: TlbFeatures = TlbFeatures { range: true, level_hints: true, repeat: false };
const DEEDS: [[Deed; 2]; 4] = [
    [Deed::Unmap, Deed::Unmap],
    [Deed::Protect, Deed::Protect],
    [Deed::Unmap, Deed::Protect],
    [Deed::Hide, Deed::Unmap],
];

#[test]
fn neighbours_of_4k_are_forgotten_each_as_they_are() {
    check_all::<Granule4K, El1>(HINTS, (39, Layout::Bits48), &SHAPES, &DEEDS);
    check_all::<Granule4K, El1>(RANGES, (39, Layout::Bits48), &SHAPES, &DEEDS[..2]);
    check_all::<Granule4K, Stage2>(HINTS, (40, Layout::Bits48), &SHAPES, &DEEDS[..1]);
}

#[test]
fn neighbours_of_16k_and_64k_are_forgotten_each_as_they_are() {
    check_all::<Granule16K, El1>(RANGES, (47, Layout::Bits48), &SHAPES[..5], &DEEDS[..1]);
    check_all::<Granule64K, El1>(HINTS, (48, Layout::Bits48), &SHAPES[1..5], &DEEDS[..1]);
}
