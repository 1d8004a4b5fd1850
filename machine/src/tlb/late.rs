//! What a TLBI does beside removing entries: it waits for walks that were begun before it.
//!
//! Faults that are late: the value that gave them went out of sight, but a walk begun before may still bring them, to a
//! CPU that has not synchronized since and lacks FEAT_ETS2. (DDI 0487, D8.2.6)

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::holders::Cpus;
use crate::tlbi::Selector;

/// A TLBI underway that comes after a settled store: no walk that is begun before its end misses the store, or it waits for
/// the access. (RWWQZZ)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub(crate) issuer: u8,
    pub(crate) selector: Selector,
    /// CPUs whose walks it waits for.
    pub(crate) walkers: Cpus,
    /// What was stored to.
    pub(crate) word: u64,
    /// Stores settled until then come before the TLBI.
    pub(crate) until: u64,
    /// It ends every entry of what was stored there, a leaf whose access flag hardware has yet to set.
    pub(crate) ends_unset: bool,
}

/// A faulting value of a word that went out of sight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    /// When.
    pub(crate) event: u64,
    /// Since when the store over that value was settled: whatever is ordered behind that does not fault.
    pub(crate) settled: u64,
    /// Out of whose sight: a walk of theirs may have met it, until their next context synchronization event.
    pub(crate) walkers: Cpus,
}

impl Late {
    /// True while `cpu`, which synchronized last at event `synchronized`, may still fault for it.
    pub(crate) const fn is_left_to(&self, cpu: u8, synchronized: u64) -> bool {
        self.walkers >> cpu & 1 == 1 && self.event > synchronized
    }
}

/// Every such value, by its word.
#[derive(Clone, Debug, Default)]
pub(crate) struct LateFaults {
    words: BTreeMap<u64, Vec<Late>>,
}

impl LateFaults {
    /// `walkers` no longer see a faulting value of `word`. What they had of older ones is over with it.
    pub(crate) fn add(&mut self, word: u64, late: Late) {
        self.forget(word, late.walkers, |_| true);
        self.words.entry(word).or_default().push(late);
    }

    pub(crate) fn of(&self, word: u64) -> &[Late] {
        if self.words.is_empty() { &[] } else { self.words.get(&word).map_or(&[], Vec::as_slice) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Late)> {
        self.words.iter().flat_map(|(word, all)| all.iter().map(|late| (*word, late)))
    }

    /// `walkers` have no access left that met a value of `word` whose successor was settled until then.
    pub(crate) fn sweep(&mut self, word: u64, walkers: Cpus, until: u64) {
        self.forget(word, walkers, |late| late.settled <= until);
    }

    fn forget(&mut self, word: u64, walkers: Cpus, is_over: impl Fn(&Late) -> bool) {
        let Some(all) = self.words.get_mut(&word) else { return };
        all.iter_mut().filter(|late| is_over(late)).for_each(|late| late.walkers &= !walkers);
        all.retain(|late| late.walkers != 0);
        if all.is_empty() {
            self.words.remove(&word);
        }
    }
}

/// A leaf whose access flag software has cleared, where hardware may set it. To keep the leaf hardware must set the flag
/// first: while that is clear, a TLB can have it only from before. (D8.5.1)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unset {
    /// When it was stored.
    pub(crate) stored: u64,
    /// A broadcast TLBI has ended what was there from before.
    pub(crate) is_swept: bool,
}
