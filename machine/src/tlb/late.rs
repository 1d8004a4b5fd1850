//! What a TLBI does beside removing entries: it waits for walks that were begun before it.
//!
//! Faults that are late: the value that gave them went out of sight, but a walk begun before may still bring them, to a
//! CPU that has not synchronized since and lacks FEAT_ETS2. (DDI 0487, D8.2.6)

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::holders::Cpus;
use super::may::{May, Space};
use super::stale::{Mark, Origin};
use super::update::Held;
use crate::barrier::Domain;
use crate::descriptor::{ACCESS_FLAG, VALID};
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

impl May {
    /// `value` has been stored to `word`: notes whether it is a leaf whose access flag hardware has yet to set.
    pub(crate) fn note_unset(&mut self, word: u64, value: u64, event: u64) {
        if value & (VALID | ACCESS_FLAG) == VALID && self.setters(word, value) != 0 {
            self.unset.insert(word, Unset { stored: event, is_swept: false });
        } else if !self.unset.is_empty() {
            self.unset.remove(&word);
        }
    }

    /// CPUs whose hardware sets the access flag of `value`, a leaf of stage 1 at `word`.
    fn setters(&self, word: u64, value: u64) -> Cpus {
        let places = self.places_of(word);
        // A TLBI for a leaf of stage 2 does not end what stage 1 has made of it.
        if places.iter().any(|place| matches!(self.space(place.space).space, Space::Two(_))) {
            return 0;
        }
        places.iter().fold(0, |all, place| {
            let state = self.space(place.space);
            let is_leaf = (place.level == 3) == (value & 2 != 0);
            let sets = is_leaf && state.space.format().hardware().access_flag;
            if sets { all | state.live.cpus() | state.kept.holders.cpus() } else { all }
        })
    }

    /// True when `selector` ends every entry of the leaf at `word`, whose access flag is clear for all.
    pub(crate) fn sweeps_unset(&self, word: u64, selector: &Selector) -> bool {
        let is_whole = |(entry, holders): &Held| {
            let selected = selector.select(entry, holders);
            !entry.lingers(true) && selected.is_ok_and(|(selected, holes)| holes == 0 && selected == *holders)
        };
        self.visible.old(word).is_empty() && self.entries_through(word, self.memory.word(word)).iter().all(is_whole)
    }

    /// A compare-and-exchange found `old` at `word`, its access flag still clear: if no TLB has it from before, none has it,
    /// and hardware that would set the flag now does not find it.
    pub(crate) fn forget_unset(&mut self, word: u64, old: u64) {
        if self.unset.get(&word).is_some_and(|unset| unset.is_swept) {
            let setters = self.setters(word, old);
            self.visible.forget_newest(word, setters);
            self.forget_answers_of_word(word, &[old, self.memory.word(word)]);
        }
    }

    /// The TLBIs of `cpu` that a DSB of `domain` completes are about to be complete: no walk misses a store that was settled
    /// before them, they end what such walks had found, and no other CPU has an access left that was begun before. Only the
    /// issuer may have looked ahead of them: that ends with its context synchronization event.
    pub(crate) fn finish_sweeps(&mut self, cpu: u8, event: u64, domain: Domain) {
        let is_done = |it: &Sweep| it.issuer == cpu && it.selector.scope().is_within(domain);
        let (done, open): (Vec<Sweep>, Vec<Sweep>) = core::mem::take(&mut self.sweeps).into_iter().partition(is_done);
        self.sweeps = open;
        for Sweep { selector, walkers, word, until, ends_unset, .. } in done {
            if let Some(unset) = self.unset.get_mut(&word) {
                unset.is_swept |= ends_unset && unset.stored <= until;
            }
            let origin = Origin { event, cpu, word: Some(word) };
            for (entry, lost) in self.hide_old(origin, word, self.visible.newest_settled(word, until), walkers) {
                if let Ok((holders, holes)) = selector.select(&entry, &lost) {
                    let mark = Mark { issuer: cpu, selector, holders, holes, awaits_sync: false, is_first: false };
                    self.stale.mark(&entry, mark);
                }
            }
            self.late.sweep(word, walkers & !(1 << cpu), until);
        }
    }
}
