//! One linear map for CPUs of whatever levels, which call each other to park, change it in turn, and may come late.

use std::ops::Range;

use linearmap::Wanted;
use machine::syndrome::AccessKind;
use pagetable::{Change, El1};
use vmsa::{LeafSize, Level, Stage1Attributes};

use super::draft::Draft;
use super::linear::at;

const BLOCK: LeafSize = LeafSize::single(Level::L2);
/// A page of a region, and its neighbour.
const PAGE: u64 = 5;
const NEIGHBOUR: u64 = 6;

/// What a page becomes, one after the other, and whether its block heals then.
pub(super) type Wishes = (&'static [Wanted], bool);

pub(super) const PROTECT: Wishes = (&[Wanted::ReadOnly], false);
pub(super) const SHOW: Wishes = (&[Wanted::Hidden, Wanted::Shown], false);
pub(super) const HEAL: Wishes = (&[Wanted::ReadOnly, Wanted::Writable], true);

/// CPUs of the levels that they have share one map.
fn share(draft: &mut Draft) {
    let levels = draft.parameters().bbm;
    at(draft, levels);
    draft.share_map(0);
}

/// A page of a block becomes this and that; the block heals where that is asked for.
fn change(draft: &mut Draft, cpu: usize, (wanted, heals): Wishes) -> usize {
    let block = draft.block();
    let region = draft.region(&[]);
    let leaf = fresh(draft, draft.map(region, 0..block, BLOCK));
    draft.begin_with(region, leaf);
    for wanted in wanted {
        draft.want(cpu, region, std::slice::from_ref(&page(PAGE)), *wanted);
        draft.read(cpu, region, PAGE);
    }
    if heals {
        draft.heal(cpu, region, 0..block);
        draft.read(cpu, region, PAGE);
    }
    region
}

/// The same leaf before anybody has accessed it, where it is hardware that says who has.
fn fresh(draft: &Draft, map: Change<El1>) -> Change<El1> {
    match map {
        Change::Map { from, to, attributes, largest } if draft.parameters().hardware.0 => {
            Change::Map { from, to, attributes: attributes.difference(Stage1Attributes::AF), largest }
        }
        map => map,
    }
}

const fn page(number: u64) -> Range<u64> {
    number..number + 1
}

/// The others look on, and hardware of the last of them marks what it may.
pub(super) fn seen(draft: &mut Draft, wishes: Wishes) {
    share(draft);
    let region = change(draft, 0, wishes);
    let last = draft.parameters().cpus - 1;
    draft.update(last, region, NEIGHBOUR, AccessKind::Read);
    draft.readers(region, &[PAGE, NEIGHBOUR]);
}

/// The last CPU comes meanwhile, looks, and has its hardware mark what it may.
pub(super) fn met(draft: &mut Draft, wishes: Wishes) {
    share(draft);
    draft.set_cpus(draft.parameters().cpus.max(2));
    let region = change(draft, 0, wishes);
    let late = draft.parameters().cpus - 1;
    (1..late).for_each(|cpu| draft.readers_of(cpu, region, &[PAGE, NEIGHBOUR]));
    draft.arrive(late);
    draft.update(late, region, NEIGHBOUR, AccessKind::Read);
    draft.readers_of(late, region, &[NEIGHBOUR, PAGE]);
}

/// Two CPUs change a block each, and look at the other's; a third one looks at both.
pub(super) fn two(draft: &mut Draft) {
    share(draft);
    draft.set_cpus(draft.parameters().cpus.max(2));
    let one = change(draft, 0, PROTECT);
    let other = change(draft, 1, (&[Wanted::Hidden], false));
    draft.read(0, other, NEIGHBOUR);
    draft.read(1, one, NEIGHBOUR);
    for cpu in 2..draft.parameters().cpus {
        draft.read(cpu, one, PAGE);
        draft.read(cpu, other, PAGE);
    }
}
