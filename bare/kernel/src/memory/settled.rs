//! What must be as before once all that was taken is released: the linear map, leaf for leaf, and free memory, to the page; but for pages
//! that a realm's host has kept since, each of which is hidden.

use crate::facts::page_size;
use crate::memory::{handed, hidden_pages, linear_map, pages};

/// The healed linear map, as it is where nothing was lost to a host, and what is free.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Nothing where what is lost is not hidden, and no map is like that.
    digest: Option<u64>,
    pub(crate) free: u64,
    pub(crate) lost: u64,
    /// Where free pages are hidden, tables that the linear map has beside those of boot: as many as it takes for those that are free now.
    tables: u64,
}

impl Settled {
    /// After the map has healed as far as it does.
    pub(crate) fn now() -> Self {
        let look = || {
            linear_map::get().heal_all();
            linear_map::get().refill();
            let counters = linear_map::get().counters();
            let tables = if hidden_pages::is_on() { counters.splits.wrapping_sub(counters.folds) } else { 0 };
            (linear_map::digest(), pages::with_pages(|pages| pages.free_bytes()), tables)
        };
        let seen = handed::with_lost_shown(look);
        let digest = seen.map(|(digest, ..)| digest);
        let (_, free, tables) = seen.unwrap_or_default();
        Self { digest, free, lost: handed::counts().1, tables }
    }

    /// Whether the map is what it was, leaf for leaf. Where free pages are hidden, which ones are is another matter.
    pub(crate) fn is_map_of(&self, before: &Self) -> bool {
        self.digest.is_some() && (hidden_pages::is_on() || self.digest == before.digest)
    }

    /// Whether as much is free as before, but for what a host has kept since, and the tables of the map.
    pub(crate) fn is_memory_of(&self, before: &Self) -> bool {
        let pages = (self.lost - before.lost).wrapping_add(self.tables).wrapping_sub(before.tables);
        self.free.wrapping_add(pages.wrapping_mul(page_size().size_bytes())) == before.free
    }
}
