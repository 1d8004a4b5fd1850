//! Stores that not every walker has seen: until the storing CPU's DSB, the old value of a word may still be walked.
//! (DDI 0487, D8.2.6, RSPVBD: the DSB must be the writer's own; RTGRMW: before it, the new value may be seen)
//! Where stores settle, also until another CPU has a DSB, for its own walker, after the store was *settled*: ordered by a
//! barrier of the storing CPU, or observed by another one. Stores are multi-copy atomic: who has seen one comes after it for
//! everybody. (B2.3)

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

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
    /// Since when the store over it was settled; now, if only its own CPU has finished it.
    pub(crate) settled: Option<u64>,
}

/// For each word with unfinished stores, its old values, oldest first.
#[derive(Clone, Hash, Debug, Default)]
pub(crate) struct Visible {
    old: BTreeMap<u64, Vec<Old>>,
    unfinished: BTreeSet<(u8, u64)>,
    /// Stores settle; else only the storing CPU's DSB counts.
    pub(crate) settles: bool,
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
        if self.old.is_empty() {
            return &[];
        }
        self.old.get(&word).map_or(&[], |old| old)
    }

    /// True when a word from `first` to `last` has an old value.
    pub(crate) fn any_in(&self, first: u64, last: u64) -> bool {
        !self.old.is_empty() && self.old.range(first..=last).next().is_some()
    }

    /// The first word from `first` to `last` that has an old value.
    pub(crate) fn next_in(&self, first: u64, last: u64) -> Option<u64> {
        if self.old.is_empty() { None } else { self.old.range(first..=last).next().map(|(word, _)| *word) }
    }

    /// Every word with old values.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u64, &[Old])> {
        self.old.iter().map(|(word, old)| (*word, old.as_slice()))
    }

    /// Words that `cpu` stored to since its last DSB.
    pub(crate) fn unfinished_by(&self, cpu: u8) -> Vec<u64> {
        self.unfinished.range((cpu, 0)..=(cpu, u64::MAX)).map(|(_, word)| *word).collect()
    }

    /// A barrier orders what `cpu` stored before it.
    pub(crate) fn settle_stores(&mut self, cpu: u8, event: u64) {
        if !self.settles {
            return;
        }
        for word in self.unfinished_by(cpu) {
            let old = self.old.get_mut(&word).map_or(&mut [][..], Vec::as_mut_slice);
            let newest = old.iter().rposition(|old| old.writer == cpu).map_or(0, |newest| newest + 1);
            settle(&mut old[..newest], event);
        }
    }

    /// `cpu` observes the newest value of `word`. If it is its own, that tells nothing of the others.
    pub(crate) fn observe(&mut self, cpu: u8, word: u64, event: u64) {
        if self.settles
            && self.old(word).last().is_some_and(|old| old.writer != cpu)
            && let Some(old) = self.old.get_mut(&word)
        {
            settle(old, event);
        }
    }

    /// Words with settled stores over values that the walker of `cpu` may still see.
    pub(crate) fn settled_for(&self, cpu: u8) -> Vec<u64> {
        let is_hidden_by_dsb = |old: &Old| old.settled.is_some() && old.walkers >> cpu & 1 == 1;
        self.old.iter().filter(|(_, old)| old.iter().any(is_hidden_by_dsb)).map(|(word, _)| *word).collect()
    }

    /// `cpu`'s stores to `word` are now visible to `walkers`. Returns what those can no longer see.
    pub(crate) fn finish(&mut self, cpu: u8, word: u64, walkers: Cpus) -> Vec<Lost> {
        let newest = self.old(word).iter().rposition(|old| old.writer == cpu);
        self.hide(word, newest, walkers)
    }

    /// The settled stores to `word` are now visible to `walkers`. Returns what those can no longer see.
    pub(crate) fn finish_settled(&mut self, word: u64, walkers: Cpus) -> Vec<Lost> {
        let newest = self.old(word).iter().rposition(|old| old.settled.is_some());
        self.hide(word, newest, walkers)
    }

    /// A TLBI of `event`, now complete, came after the settled stores to `word`. Returns what no walker can see any longer.
    pub(crate) fn finish_swept(&mut self, word: u64, event: u64) -> Vec<Lost> {
        let newest = self.old(word).iter().rposition(|old| old.settled.is_some_and(|settled| settled <= event));
        self.hide(word, newest, !0)
    }

    /// `walkers` could do nothing with the value of `word` that was stored over last.
    pub(crate) fn forget_newest(&mut self, word: u64, walkers: Cpus) {
        if let Some(old) = self.old.get_mut(&word).and_then(|old| old.last_mut()) {
            old.walkers &= !walkers;
        }
    }

    /// A store that came later in coherence order hides every earlier one, whoever made it.
    fn hide(&mut self, word: u64, newest: Option<usize>, walkers: Cpus) -> Vec<Lost> {
        let mut lost = Vec::new();
        let (Some(newest), Some(old)) = (newest, self.old.get_mut(&word)) else { return lost };
        for old in &mut old[..=newest] {
            if old.walkers & walkers != 0 {
                lost.push(Lost { value: old.value, settled: old.settled });
            }
            old.walkers &= !walkers;
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
        lost
    }
}

fn settle(old: &mut [Old], event: u64) {
    old.iter_mut().for_each(|old| old.settled = old.settled.or(Some(event)));
}
