//! Walks that were begun before a TLBI, and what that TLBI does to them: see `late`.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::holders::{Cpus, Held};
use super::late::{Sweep, Unset};
use super::may::May;
use super::places::Place;
use super::space::Space;
use super::stale::{Mark, Origin};
use crate::barrier::Domain;
use crate::descriptor::{ACCESS_FLAG, VALID};
use crate::event::Level;
use crate::tlbi::Selector;

impl May {
    /// `value` has been stored to `word`: notes whether it is a leaf whose access flag hardware has yet to set.
    pub(crate) fn note_unset(&mut self, word: u64, value: u64, event: u64) {
        if value & (VALID | ACCESS_FLAG) == VALID && self.setters(word, value) != 0 {
            self.unset.insert(word, Unset { stored: event, is_swept: false });
            for place in self.places_of(word).iter() {
                self.unset_places.insert((place.space, place.level, place.start, word));
            }
        } else {
            self.unset.remove(&word);
        }
    }

    /// Leaves whose access flag hardware has yet to set, at addresses of `selector`.
    pub(crate) fn unset_near(&self, selector: &Selector) -> Vec<u64> {
        let range = &selector.invalidation;
        if range.is_whole() {
            return self.unset.keys().copied().collect();
        }
        let covered = self.spaces().filter(|(_, it)| selector.covers_context(it.space.tag()));
        let near = covered.flat_map(|(id, it)| {
            (it.space.geometry().start_level..=3).flat_map(move |level| {
                let shift = it.space.geometry().slot_shift(level);
                let first = (id, level, range.first >> shift << shift, 0);
                self.unset_places.range(first..=(id, level, range.last, u64::MAX)).map(|place| place.3)
            })
        });
        let words: BTreeSet<u64> = near.filter(|word| self.unset.contains_key(word)).collect();
        words.into_iter().collect()
    }

    /// CPUs whose hardware sets the access flag of `value`, a leaf of stage 1 at `word`.
    fn setters(&self, word: u64, value: u64) -> Cpus {
        let places = self.places_of(word);
        let walked: Vec<&Place> = places.iter().filter(|place| self.is_walked_at(word, place)).collect();
        // A TLBI for a leaf of stage 2 does not end what stage 1 has made of it.
        if walked.iter().any(|place| matches!(self.space(place.space).space, Space::Two(_))) {
            return 0;
        }
        walked.iter().fold(0, |all, place| {
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
            !entry.lingers(true, Level::El0) && selected.is_ok_and(|(selected, _)| selected == *holders)
        };
        self.visible.old(word).is_empty() && self.entries_through(word, self.memory.word(word)).iter().all(is_whole)
    }

    /// A compare-and-exchange found `old` at `word`, its access flag still clear: if no TLB has it from before, none has it,
    /// and hardware that would set the flag now does not find it.
    pub(crate) fn forget_unset(&mut self, word: u64, old: u64) {
        if self.unset.get(&word).is_some_and(|unset| unset.is_swept) {
            let setters = self.setters(word, old);
            self.visible.forget_newest(word, setters);
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
