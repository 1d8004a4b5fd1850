//! How many tables are kept for changes in atomic context.

use vmsa::{Granule, LeafSize, Level, PageSize};

use crate::shape::{Leaves, Map};

/// Changes of single pages, wherever they are, that a full reserve is enough for with 4 KiB pages.
pub const CHANGES_IN_RESERVE: usize = 64;

/// With larger pages a reserve takes no more than one part in so many of all memory.
const SHARE_OF_MEMORY: u64 = 100;

/// The tables of a full reserve.
pub(crate) fn target<G: Granule>(map: &Map<G>) -> usize {
    if map.leaves == Leaves::Pages {
        return 0;
    }
    let largest = LeafSize::all(G::PAGE_SIZE, map.geometry.layout()).next().map_or(Level::L3, |leaf| leaf.level);
    // Each change may meet a leaf of the largest size, which becomes a table at every level below.
    let tables = CHANGES_IN_RESERVE * largest.below() as usize;
    match G::PAGE_SIZE {
        PageSize::Size4K => tables,
        _ => tables.min((map.memory_bytes / SHARE_OF_MEMORY / G::SIZE_BYTES) as usize),
    }
}
