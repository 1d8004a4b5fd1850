//! How many tables are kept: for changes in atomic context, and spare ones.

use vmsa::{Granule, LeafSize, Level};

use crate::shape::{Leaves, Map};

/// Changes of single pages, wherever they are, that a full reserve is enough for with 4 KiB pages.
pub const CHANGES_IN_RESERVE: usize = 64;

/// Tables that a map holds for changes that may wait: as many as a page of the largest leaf takes with 4 KiB pages.
pub(crate) const SPARE: usize = 2;

/// Ranges of one list are counted as if no two shared a leaf: so much room a level has, however few leaves there can be.
const ROOM_FOR_LISTS: u64 = 16;

/// The tables of a full reserve: at each level one for every change, but hardly more than there can be leaves for them to replace.
/// With pages of 16 KiB and 64 KiB that is less than a hundredth of memory, for a block is 2,048 of them or more.
pub(crate) fn target<G: Granule>(map: &Map<G>) -> usize {
    if map.leaves == Leaves::Pages {
        return 0;
    }
    let blocks = LeafSize::all(G::PAGE_SIZE, map.geometry.layout());
    let blocks =
        blocks.filter(|leaf| !leaf.contiguous && leaf.level != Level::L3 && leaf.level >= map.geometry.start());
    let most = |leaf: LeafSize| match map.memory_bytes / leaf.size_bytes(G::PAGE_SIZE) {
        0 => 0,
        leaves => leaves.clamp(ROOM_FOR_LISTS, CHANGES_IN_RESERVE as u64) as usize,
    };
    blocks.map(most).sum()
}
