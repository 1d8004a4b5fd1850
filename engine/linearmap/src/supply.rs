//! Where tables come from, and go back to.

use pagetable::{Platform, Reserve};
use vmsa::Layout;

use crate::embedder::Pages;

/// Adds `count` tables to `reserve`, or as many as there are; how many there are not. One that no descriptor can lead to is none.
pub(crate) fn fetch<P: Platform>(
    pages: &impl Pages,
    platform: &P,
    layout: Layout,
    reserve: &mut Reserve,
    count: usize,
) -> usize {
    for fetched in 0..count {
        match pages.allocate() {
            Some(table) if table.bits() >> layout.output_bits() == 0 => reserve.add(platform, table),
            Some(table) => {
                pages.free(table);
                return count - fetched;
            }
            None => return count - fetched,
        }
    }
    0
}

/// Gives every table of `reserve` back.
pub(crate) fn give_back<P: Platform>(pages: &impl Pages, platform: &P, mut reserve: Reserve) {
    while let Some(table) = reserve.take(platform) {
        pages.free(table);
    }
}
