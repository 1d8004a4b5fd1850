//! Memory that comes and goes in a linear map: a part of a leaf is removed and added again, while others look.

use std::ops::Range;

use linearmap::Wanted;
use pagetable::Change;
use vmsa::{LeafSize, Level};

use super::draft::Draft;
use super::linear::{EVERY_3, at};
use crate::levels::Levels;

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
fn moved(draft: &mut Draft, levels: Levels, lists: &[Range<u64>], (comes, heals): (bool, bool)) {
    at(draft, levels);
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

/// A page of a block goes, and comes back and heals where that is asked for. Healing never folds over a hole.
pub(super) fn remove(draft: &mut Draft, levels: Levels, then: (bool, bool)) {
    moved(draft, levels, std::slice::from_ref(&(5..6)), then);
}

/// The table that the first half left holds nothing once the second is gone.
pub(super) fn remove_all(draft: &mut Draft) {
    let block = draft.block();
    moved(draft, EVERY_3, &[0..block / 2, block / 2..block], (false, false));
}

/// By one CPU, in windows.
pub(super) fn come_back_alone(draft: &mut Draft) {
    draft.one_cpu();
    remove(draft, Levels::all(0), (true, true));
}
