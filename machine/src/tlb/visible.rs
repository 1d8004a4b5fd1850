//! Stores that not every walker has seen: until the storing CPU's DSB, the old value of a word may still be walked.
//! (DDI 0487, D8.2.6, RSPVBD: the DSB must be the writer's own; RTGRMW: before it, the new value may be seen)

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::holders::Cpus;

/// A value that was stored over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Old {
    pub(crate) value: u64,
    /// CPUs whose walkers may still see it.
    pub(crate) walkers: Cpus,
    /// The CPU that stored the value after it.
    pub(crate) writer: u8,
}

/// For each word with unfinished stores, its old values, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visible {
    old: BTreeMap<u64, Vec<Old>>,
    unfinished: BTreeSet<(u8, u64)>,
    /// Where there may be old values: bit n for every page whose number is n modulo 64. A hint that may say too much.
    pages: u64,
}

impl Hash for Visible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.old.hash(state);
        self.unfinished.hash(state);
    }
}

impl Visible {
    /// `cpu` stored over `value` at `word`.
    pub(crate) fn store(&mut self, cpu: u8, word: u64, value: u64) {
        self.old.entry(word).or_default().push(Old { value, walkers: !0, writer: cpu });
        self.unfinished.insert((cpu, word));
        self.pages |= page_bit(word);
    }

    /// Old values of `word`.
    pub(crate) fn old(&self, word: u64) -> &[Old] {
        if self.pages & page_bit(word) == 0 {
            return &[];
        }
        self.old.get(&word).map_or(&[], |old| old)
    }

    /// The first word from `first` to `last`, both of one page, that has an old value.
    pub(crate) fn next_in(&self, first: u64, last: u64) -> Option<u64> {
        if self.pages & page_bit(first) == 0 {
            return None;
        }
        self.old.range(first..=last).next().map(|(word, _)| *word)
    }

    /// Every word with old values.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, &[Old])> {
        self.old.iter().map(|(word, old)| (*word, old.as_slice()))
    }

    /// Words that `cpu` stored to since its last DSB.
    pub(crate) fn unfinished_by(&self, cpu: u8) -> Vec<u64> {
        self.unfinished.range((cpu, 0)..=(cpu, u64::MAX)).map(|(_, word)| *word).collect()
    }

    /// Values of `word` that `walkers` will no longer see once `cpu` finishes its stores.
    pub(crate) fn finishing(&self, cpu: u8, word: u64, walkers: Cpus) -> impl Iterator<Item = u64> {
        let old = self.old(word);
        let newest = old.iter().rposition(|old| old.writer == cpu).map_or(0, |at| at + 1);
        old[..newest].iter().filter(move |old| old.walkers & walkers != 0).map(|old| old.value)
    }

    /// `cpu`'s stores to `word` are now visible to `walkers`. Returns what those can no longer see.
    /// A store that came later in coherence order hides every earlier one, whoever made it.
    pub(crate) fn finish(&mut self, cpu: u8, word: u64, walkers: Cpus) -> Vec<(u64, Cpus)> {
        let mut lost = Vec::new();
        let Some(old) = self.old.get_mut(&word) else { return lost };
        if let Some(newest) = old.iter().rposition(|old| old.writer == cpu) {
            for old in &mut old[..=newest] {
                if old.walkers & walkers != 0 {
                    lost.push((old.value, old.walkers & walkers));
                }
                old.walkers &= !walkers;
            }
        }
        let writers: Vec<u8> = old.iter().map(|old| old.writer).collect();
        old.retain(|old| old.walkers != 0);
        for writer in writers {
            if !old.iter().any(|old| old.writer == writer) {
                self.unfinished.remove(&(writer, word));
            }
        }
        if old.is_empty() {
            self.old.remove(&word);
        }
        if self.old.is_empty() {
            self.pages = 0;
        }
        lost
    }
}

const fn page_bit(word: u64) -> u64 {
    1 << (word >> 12 & 63)
}
