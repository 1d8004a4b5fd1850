//! Where words lead: see `tlb::leading`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::tlb::entry::SpaceId;
use crate::tlb::spans::Spans;

/// What leads to some memory: base-2 logarithm of how much of it, its first address, and the word.
pub(crate) type Leading = (u8, u64, u64);

/// By the stage 2 whose intermediate addresses they are, or `None` for physical ones: the words that lead there. Nothing is
/// noted before somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Option<BTreeMap<Option<SpaceId>, Spans<u64>>>);

impl Outputs {
    /// From now on it is known; true when it was not, and every word is to be noted.
    pub(super) fn begin(&mut self) -> bool {
        let is_new = self.0.is_none();
        self.0.get_or_insert_default();
        is_new
    }

    pub(crate) fn note(&mut self, memory: Option<SpaceId>, log2: u8, first: u64, word: u64) {
        if let Some(known) = &mut self.0 {
            known.entry(memory).or_default().add(log2, first, word);
        }
    }

    pub(crate) fn remove(&mut self, memory: Option<SpaceId>, (log2, first, word): Leading) {
        if let Some(known) = self.0.as_mut().and_then(|it| it.get_mut(&memory)) {
            known.remove(log2, first, word);
        }
    }

    /// What leads to `first..=last`.
    pub(crate) fn leading(&self, memory: Option<SpaceId>, first: u64, last: u64) -> Vec<Leading> {
        let known = self.0.as_ref().and_then(|it| it.get(&memory));
        known.map_or_else(Vec::new, |known| known.covering(first, last).collect())
    }
}
