//! Which words are descriptors: for each 4 KiB of memory, the tables it is part of. Whether a walk still uses a word is asked
//! of `reach`. A use is noted when a table can first be reached, by whatever CPU, and forgotten when its memory is
//! released, or is a table elsewhere and no walk comes to the old place any more; it keeps a store to any other word as cheap as
//! one look-up.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Deref;

use super::entry::SpaceId;

/// A table, or 4 KiB of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Use {
    pub(crate) space: SpaceId,
    pub(crate) level: i8,
    /// Physical address of its first entry.
    pub(super) table: u64,
    pub(super) slots: u32,
    /// Input address of its first entry.
    pub(super) base: u64,
}

/// A descriptor's place in a page table.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Place {
    pub(crate) space: SpaceId,
    pub(crate) level: i8,
    pub(crate) start: u64,
    pub(crate) last: u64,
}

/// Nearly every descriptor has no more places than this, and needs no allocation.
const FEW: usize = 2;

/// All places of a descriptor.
#[derive(Default, Debug)]
pub(crate) struct Places {
    count: usize,
    few: [Place; FEW],
    /// All of them, once they are more.
    many: Vec<Place>,
}

impl Places {
    pub(super) fn push(&mut self, place: Place) {
        if self.count < FEW {
            self.few[self.count] = place;
        } else {
            if self.many.is_empty() {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(place);
        }
        self.count += 1;
    }
}

impl Deref for Places {
    type Target = [Place];

    fn deref(&self) -> &[Place] {
        if self.count <= FEW { &self.few[..self.count] } else { &self.many }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    pub(super) pages: BTreeMap<u64, Vec<Use>>,
    /// How many uses there are in each page table.
    counts: BTreeMap<SpaceId, usize>,
}

/// A page table may use tables at this many places more than sixteen times the pages that hold tables. A recursive slot
/// needs one more place for each level. One that leads to itself by many of its slots would have a place for each way
/// round: a walk of it would not end in anybody's lifetime.
const MOST_PLACES: usize = 1024;
const PLACES_PER_PAGE: usize = 16;

impl Index {
    /// A use that is not known yet; false when that is one too many.
    #[must_use]
    pub(super) fn add(&mut self, table: Use) -> bool {
        let most = MOST_PLACES + PLACES_PER_PAGE * self.pages.len();
        let uses = self.pages.entry(table.table >> 12).or_default();
        let count = self.counts.entry(table.space).or_default();
        *count += 1;
        uses.push(table);
        *count <= most
    }

    /// The 4 KiB at `page` are no table any more: of which page tables they were.
    pub(super) fn forget(&mut self, page: u64) -> Vec<SpaceId> {
        let uses = self.pages.remove(&(page >> 12)).unwrap_or_default();
        for table in &uses {
            self.counts.entry(table.space).and_modify(|count| *count -= 1);
        }
        uses.iter().map(|table| table.space).collect()
    }

    /// It is no table at this place any more; its page is one elsewhere.
    pub(super) fn forget_use(&mut self, table: &Use) {
        if let Some(uses) = self.pages.get_mut(&(table.table >> 12)) {
            uses.retain(|it| it != table);
            self.counts.entry(table.space).and_modify(|count| *count -= 1);
        }
    }

    /// How many uses there are.
    #[cfg(debug_assertions)]
    pub(crate) fn places(&self) -> usize {
        self.counts.values().sum()
    }

    /// True when `word` is no descriptor.
    pub(crate) fn is_plain(&self, word: u64) -> bool {
        !self.pages.contains_key(&(word >> 12))
    }

    pub(crate) fn uses(&self, word: u64) -> &[Use] {
        self.pages.get(&(word >> 12)).map_or(&[], |uses| uses)
    }
}

impl Use {
    pub(super) const fn covers(&self, word: u64) -> bool {
        word >= self.table && word < self.table + self.slots as u64 * 8
    }
}
