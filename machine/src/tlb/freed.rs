//! Tables that were given away. Their content and the links to them may stay as long as no walk comes back: it would read the
//! next owner's data. A page table that goes as a whole is often given away so.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::RangeInclusive;

/// Tables that were given away, each with the event.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreedTables {
    /// Those that nobody has stored to since, by first address; and the last one, in the same 4 KiB.
    pieces: BTreeMap<u64, (u64, u64)>,
    /// Descriptors that linked one then, in page tables that nobody walked, and that nobody has stored to since.
    links: BTreeMap<u64, u64>,
    /// The pieces and links, by an address in each, that walks may have come to since.
    pub(crate) returning: BTreeSet<u64>,
}

impl FreedTables {
    pub(crate) fn add(&mut self, first: u64, last: u64, event: u64) {
        for page in (first & !0xfff..=last).step_by(0x1000) {
            self.pieces.insert(first.max(page), (last.min(page | 0xfff), event));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn add_link(&mut self, word: u64, event: u64) {
        self.links.insert(word, event);
    }

    /// The piece that holds `address`: its addresses, and the event that gave it away.
    pub(crate) fn piece(&self, address: u64) -> Option<(RangeInclusive<u64>, u64)> {
        let (first, (last, event)) = self.pieces.range(..=address).next_back()?;
        (*last >= address).then_some((*first..=*last, *event))
    }

    /// The event that gave away what `word` linked.
    pub(crate) fn link(&self, word: u64) -> Option<u64> {
        self.links.get(&word).copied()
    }

    /// Somebody stores to `word`, or has been told.
    pub(crate) fn forget(&mut self, word: u64) {
        self.links.remove(&word);
        if let Some((piece, _)) = self.piece(word) {
            self.pieces.remove(piece.start());
        }
    }

    /// A walk may come to `address`, a table or a descriptor.
    pub(super) fn note(&mut self, address: u64) {
        if self.links.contains_key(&address) || self.piece(address).is_some() {
            self.returning.insert(address);
        }
    }

    /// Without the events.
    pub(crate) fn state(&self) -> (impl Iterator<Item = (u64, u64)>, impl Iterator<Item = u64>) {
        (self.pieces.iter().map(|(first, (last, _))| (*first, *last)), self.links.keys().copied())
    }
}
