//! Four KiB of a table: where they are in memory, and which of their words can matter at all. Most words of most tables
//! are invalid, and this is where the time of a question goes.

use alloc::vec::Vec;

use super::may::May;
use super::reach::Route;
use crate::descriptor::{CONTIGUOUS, VALID};
use crate::memory::Page;

/// Where 4 KiB of a table are in memory: one place, or as many as stage 2 may say.
pub(crate) struct Chunk<'a> {
    /// Number of the 4 KiB page at which the walk looks for it.
    pub(crate) page: u64,
    pub(crate) places: Vec<Place<'a>>,
    /// All zero, with no old values.
    is_blank: bool,
}

/// One such place.
pub(crate) struct Place<'a> {
    pub(crate) page: u64,
    pub(crate) route: Route,
    words: Option<&'a Page>,
    pub(crate) has_old: bool,
}

impl Place<'_> {
    /// The newest value of `word`.
    pub(crate) fn value(&self, word: u64) -> u64 {
        self.words.map_or(0, |words| words.word((word as usize & 0xfff) / 8))
    }

    /// False when the word cannot matter: most words of most tables are invalid, and this is where time goes.
    pub(crate) fn may_answer(&self, value: u64, is_inside: bool, wants_faults: bool) -> bool {
        let needed = if is_inside { VALID } else { VALID | CONTIGUOUS };
        self.has_old || value & needed == needed || is_inside && wants_faults
    }
}

impl<'a> Chunk<'a> {
    pub(crate) const fn none() -> Self {
        Self { page: u64::MAX, places: Vec::new(), is_blank: false }
    }

    pub(crate) fn new(may: &'a May, page: u64, places: Vec<(u64, Route)>) -> Self {
        let place = |(page, route): (u64, Route)| Place {
            page,
            route,
            words: may.memory.page(page),
            has_old: may.visible.any_in(page, page | 0xfff),
        };
        let places: Vec<Place<'a>> = places.into_iter().map(place).collect();
        let is_blank = places.iter().all(|it| it.words.is_none() && !it.has_old);
        Self { page, places, is_blank }
    }

    /// How many words from `address` on are invalid, if any are.
    pub(crate) fn skips(&self, may: &May, address: u64) -> u64 {
        let slot = (address as usize & 0xfff) / 8;
        let rest = 512 - slot;
        let [place] = self.places.as_slice() else { return if self.is_blank { rest as u64 } else { 0 } };
        let mut next = place.words.and_then(|words| words.next_odd(slot)).unwrap_or(512);
        if place.has_old && next > slot {
            let from = place.page + slot as u64 * 8;
            let old = may.visible.next_in(from, place.page | 0xfff);
            next = next.min(old.map_or(512, |word| (word as usize & 0xfff) / 8));
        }
        (next - slot) as u64
    }
}
