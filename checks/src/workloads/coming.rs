//! Memory that comes and goes in a linear map: a part of a leaf is removed and added again, while others look.

use std::ops::Range;

use linearmap::Wanted;
use pagetable::Change;
use vmsa::{LeafSize, Level};

use super::draft::Draft;
use super::linear::{at_level, on_mixed};

const BLOCK: LeafSize = LeafSize::single(Level::L2);

/// Memory arrives where that of a region was at first.
fn present(draft: &Draft, region: usize) -> Wanted {
    let Change::Map { from, to, attributes, .. } = draft.map(region, 0..1, LeafSize::PAGE) else {
        unreachable!("`map` maps")
    };
    Wanted::Present { displacement: to.bits().wrapping_sub(from.start.bits()), attributes }
}

/// Pages of a block go, one list after the other, and come back; the block heals where that is asked for. Others look at the first page
/// and at a neighbour.
fn moved(draft: &mut Draft, lists: &[Range<u64>], comes: bool, heals: bool) {
    let block = draft.block();
    let region = draft.region(&[(0..block, BLOCK)]);
    let first = lists[0].start;
    for pages in lists {
        draft.want(0, region, std::slice::from_ref(pages), Wanted::Absent);
        draft.read(0, region, first);
    }
    if comes {
        let present = present(draft, region);
        draft.want(0, region, lists, present);
        draft.read(0, region, first);
    }
    if heals {
        draft.heal(0, region, 0..block);
        draft.read(0, region, first);
    }
    draft.readers(region, &[first, lists[0].end % block]);
}

const fn page(number: u64) -> Range<u64> {
    number..number + 1
}

pub(super) fn remove(draft: &mut Draft) {
    at_level(draft, 3);
    moved(draft, &[page(5)], false, false);
}

/// The table that the first half left holds nothing once the second is gone.
pub(super) fn remove_all(draft: &mut Draft) {
    at_level(draft, 3);
    let block = draft.block();
    moved(draft, &[0..block / 2, block / 2..block], false, false);
}

pub(super) fn remove_on_mixed(draft: &mut Draft) {
    on_mixed(draft);
    moved(draft, &[page(5)], false, false);
}

pub(super) fn come_back(draft: &mut Draft) {
    at_level(draft, 3);
    moved(draft, &[page(5)], true, true);
}

/// By one CPU, in windows.
pub(super) fn come_back_alone(draft: &mut Draft) {
    at_level(draft, 0);
    draft.one_cpu();
    moved(draft, &[page(5)], true, true);
}

/// Healing never folds over a hole.
pub(super) fn heal_around(draft: &mut Draft) {
    at_level(draft, 3);
    moved(draft, &[page(5)], false, true);
}
