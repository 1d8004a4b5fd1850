//! Stores that not every walker has seen: until the storing CPU's DSB, the old value of a word may still be walked.
//! (DDI 0487, D8.2.6, RSPVBD: the DSB must be the writer's own; RTGRMW: before it, the new value may be seen)
//! Where stores settle, also until another CPU has a DSB, for its own walker, after the store was *settled*: ordered by a
//! barrier of the storing CPU, or observed by another one. Stores are multi-copy atomic: who has seen one comes after it for
//! everybody. (B2.3) Before a lock is given away they settle everywhere.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::ops::RangeInclusive;

use super::holders::Cpus;

/// A value that was stored over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old {
    pub(crate) value: u64,
    /// CPUs whose walkers may still see it.
    pub(crate) walkers: Cpus,
    /// The CPU that stored the value after it.
    pub(crate) writer: u8,
    /// Since when that store is settled.
    pub(crate) settled: Option<u64>,
}

impl Hash for Old {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.value, self.walkers, self.writer, self.settled.is_some()).hash(state);
    }
}

/// What some walkers no longer see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) value: u64,
    /// Who did until now.
    pub(crate) walkers: Cpus,
    /// Since when the store over it was settled; now, if only its own CPU has finished it.
    pub(crate) settled: Option<u64>,
}

/// For each word with unfinished stores, its old values, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visible {
    old: BTreeMap<u64, Vec<Old>>,
    unfinished: BTreeSet<(u8, u64)>,
    /// Words with old values of which the store over one is settled.
    settled: BTreeSet<u64>,
    /// Stores settle by barriers and observation; else only by locks.
    pub(crate) settles: bool,
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
        let old = Old { value, walkers: !0, writer: cpu, settled: None };
        self.old.entry(word).or_default().push(old);
        self.unfinished.insert((cpu, word));
    }

    /// Old values of `word`.
    pub(crate) fn old(&self, word: u64) -> &[Old] {
        self.old.get(&word).map_or(&[], |old| old)
    }

    /// The first word from `first` to `last` that has an old value.
    pub(crate) fn next_in(&self, first: u64, last: u64) -> Option<u64> {
        self.old.range(first..=last).next().map(|(word, _)| *word)
    }

    /// Every word with old values.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, &[Old])> {
        self.old.iter().map(|(word, old)| (*word, old.as_slice()))
    }

    /// Words that `cpu` stored to since its last DSB.
    pub(crate) fn unfinished_by(&self, cpu: u8) -> Vec<u64> {
        self.unfinished.range(words_of(cpu)).map(|(_, word)| *word).collect()
    }

    /// A barrier orders what `cpu` stored before it.
    pub(crate) fn settle_stores(&mut self, cpu: u8, event: u64) {
        if self.settles {
            self.settle_by_lock(cpu, event);
        }
    }

    /// `cpu` gives a lock away behind what it stored.
    pub(crate) fn settle_by_lock(&mut self, cpu: u8, event: u64) {
        for word in self.unfinished_by(cpu) {
            let newest = self.newest_by(cpu, word);
            if let (Some(newest), Some(old)) = (newest, self.old.get_mut(&word)) {
                settle(&mut old[..=newest], event);
                self.settled.insert(word);
            }
        }
    }

    /// Words of which a store is settled that walkers may still miss.
    pub(crate) fn settled(&self) -> impl Iterator<Item = u64> {
        self.settled.iter().copied()
    }

    /// Whether it may matter since when stores to `word` are settled.
    pub(crate) fn counts(&self, word: u64) -> bool {
        self.settles || self.settled.contains(&word)
    }

    /// `cpu` observes the newest value of `word`. If it is its own, that tells nothing of the others.
    pub(crate) fn observe(&mut self, cpu: u8, word: u64, event: u64) {
        if self.settles
            && self.old(word).last().is_some_and(|old| old.writer != cpu)
            && let Some(old) = self.old.get_mut(&word)
        {
            settle(old, event);
            self.settled.insert(word);
        }
    }

    /// Words with settled stores over values that the walker of `cpu` may still see.
    pub(crate) fn settled_for(&self, cpu: u8) -> Vec<u64> {
        let is_hidden_by_dsb = |old: &Old| old.settled.is_some() && old.walkers >> cpu & 1 == 1;
        self.settled().filter(|word| self.old(*word).iter().any(is_hidden_by_dsb)).collect()
    }

    /// The place among the old values of `word` of the one that `cpu` stored over last.
    pub(crate) fn newest_by(&self, cpu: u8, word: u64) -> Option<usize> {
        self.old(word).iter().rposition(|old| old.writer == cpu)
    }

    /// The place of the one whose store was the last to be settled at event `until` or before.
    pub(crate) fn newest_settled(&self, word: u64, until: u64) -> Option<usize> {
        self.old(word).iter().rposition(|old| old.settled.is_some_and(|settled| settled <= until))
    }

    /// What `walkers` will no longer see of `word` once the store over the value at `newest` is visible to them: a store
    /// that came later in coherence order hides every earlier one, whoever made it.
    pub(crate) fn hidden_by(&self, word: u64, newest: Option<usize>, walkers: Cpus) -> Vec<Lost> {
        let earlier = newest.map_or(&[][..], |newest| &self.old(word)[..=newest]);
        let lost = earlier.iter().filter(|old| old.walkers & walkers != 0);
        lost.map(|old| Lost { value: old.value, walkers: old.walkers & walkers, settled: old.settled }).collect()
    }

    /// `walkers` could do nothing with the value of `word` that was stored over last.
    pub(crate) fn forget_newest(&mut self, word: u64, walkers: Cpus) {
        if let Some(old) = self.old.get_mut(&word).and_then(|old| old.last_mut()) {
            old.walkers &= !walkers;
        }
    }

    /// The store over the value at `newest` is now visible to `walkers`.
    pub(crate) fn hide(&mut self, word: u64, newest: Option<usize>, walkers: Cpus) {
        let (Some(newest), Some(old)) = (newest, self.old.get_mut(&word)) else { return };
        old[..=newest].iter_mut().for_each(|old| old.walkers &= !walkers);
        let writers: Vec<u8> = old.iter().map(|old| old.writer).collect();
        old.retain(|old| old.walkers != 0);
        for writer in writers {
            if !old.iter().any(|old| old.writer == writer) {
                self.unfinished.remove(&(writer, word));
            }
        }
        if !old.iter().any(|old| old.settled.is_some()) {
            self.settled.remove(&word);
        }
        if old.is_empty() {
            self.old.remove(&word);
        }
    }
}

/// The words of `cpu`, in a map by CPU and word.
pub(crate) fn words_of(cpu: u8) -> RangeInclusive<(u8, u64)> {
    (cpu, 0)..=(cpu, u64::MAX)
}

fn settle(old: &mut [Old], event: u64) {
    old.iter_mut().for_each(|old| old.settled = old.settled.or(Some(event)));
}
