//! How the may-TLB changes: stores make more reachable; DSBs, TLBIs and context switches end reachability, and what ends
//! without having been invalidated becomes stale.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::entry::{Entry, SpaceId};
use super::holders::{Cpus, GLOBAL, Holders};
use super::late::{Sweep, Unset};
use super::may::May;
use super::reach::{Found, Question, Through};
use super::stale::{Mark, Origin};
use super::visible::{Lost, Visible};
use crate::descriptor::{ACCESS_FLAG, Hierarchy, VALID};
use crate::tlbi::Selector;

/// An entry and whoever could hold it.
pub(crate) type Held = (Entry, Holders);

/// Entries whose end is caused by a TLBI that itself ends them do not become stale: this says which.
pub(crate) type Spared<'a> = &'a dyn Fn(&Entry, &Holders) -> Holders;

/// Nothing is spared.
pub(crate) fn spare_none(_: &Entry, _: &Holders) -> Holders {
    Holders::none()
}

impl May {
    /// `cpu` stores `value` to `word`. Until it finishes the store, every walker may see the old value or the new.
    pub(crate) fn store(&mut self, cpu: u8, word: u64, value: u64) {
        let old = self.memory.word(word);
        if self.index.is_plain(word) && self.visible.old(word).is_empty() {
            if old != value {
                self.loose.entry((cpu, word)).or_insert(old);
            }
            self.memory.set_word(word, value);
            return;
        }
        if old == value {
            return;
        }
        self.hide_from_kept(word, value);
        self.visible.store(cpu, word, old);
        self.memory.set_word(word, value);
        for place in self.places_of(word) {
            self.index_value(place.space, place.level, value, place.start, Hierarchy::default());
        }
    }

    /// `value` has been stored to `word`: notes whether it is a leaf whose access flag hardware has yet to set.
    pub(crate) fn note_unset(&mut self, word: u64, value: u64, event: u64) {
        if value & (VALID | ACCESS_FLAG) == VALID && self.setters(word, value) != 0 {
            self.unset.insert(word, Unset { stored: event, is_swept: false });
        } else if !self.unset.is_empty() {
            self.unset.remove(&word);
        }
    }

    /// CPUs whose hardware sets the access flag of `value`, a leaf at `word`.
    fn setters(&self, word: u64, value: u64) -> Cpus {
        self.places_of(word).iter().fold(0, |all, place| {
            let state = self.space(place.space);
            let is_leaf = (place.level == 3) == (value & 2 != 0);
            let sets = is_leaf && state.space.format().hardware().access_flag;
            if sets { all | state.live.cpus() | state.kept.holders.cpus() } else { all }
        })
    }

    /// True when `selector`, issued by a CPU with a DSB at `until` before it, ends every entry of the leaf at `word`, whose
    /// access flag was cleared by then.
    pub(crate) fn sweeps_unset(&self, word: u64, unset: &Unset, selector: &Selector, until: u64) -> bool {
        let is_whole = |(entry, holders): &Held| {
            let selected = selector.select(entry, holders);
            !entry.lingers(true) && selected.is_ok_and(|(selected, holes)| holes == 0 && selected == *holders)
        };
        unset.stored <= until
            && self.visible.old(word).is_empty()
            && self.entries_through(word, self.memory.word(word)).iter().all(is_whole)
    }

    /// A compare-and-exchange found `old` at `word`, its access flag still clear: if no TLB has it from before, none has it,
    /// and hardware that would set the flag now does not find it.
    pub(crate) fn forget_unset(&mut self, word: u64, old: u64) {
        if self.unset.get(&word).is_some_and(|unset| unset.is_swept) {
            let setters = self.setters(word, old);
            self.visible.forget_newest(word, setters);
        }
    }

    /// Hardware sets the access flag or the dirty state: at once, for everybody, and entries stay as they are.
    pub(crate) fn store_by_hardware(&mut self, word: u64, value: u64) {
        self.unset.remove(&word);
        self.memory.set_word(word, value);
    }

    /// Contexts that a CPU has left cannot be walked by it: what is stored now is out of its reach.
    fn hide_from_kept(&mut self, word: u64, value: u64) {
        if self.visible.old(word).iter().any(|old| old.value == value) {
            return;
        }
        for place in self.places_of(word) {
            let state = self.space_mut(place.space);
            if !state.kept.holders.is_empty() {
                let kept = state.kept.holders.clone();
                state.hidden.entry((word, value)).or_default().merge(&kept);
            }
        }
    }

    /// The entries that come from `value` at `word` itself.
    pub(crate) fn entries_through(&self, word: u64, value: u64) -> Vec<Held> {
        let mut found = Vec::new();
        if value & VALID == 0 {
            return found;
        }
        for place in self.places_of(word) {
            let tag = self.space(place.space).space.tag();
            let question = Question {
                through: Some(Through::Word(word, value)),
                deepest: place.level,
                near: Some(place.space),
                ..Question::about(place.start, place.last)
            };
            self.each_reached(tag, &question, &mut |seen, holders| {
                if seen.word != word {
                    return;
                }
                if let Found::Entry { entry, is_untranslated: false, .. } = seen.found
                    && seen.route.is_through
                    && entry.space == place.space
                {
                    merge_into(&mut found, entry, holders);
                }
            });
        }
        found
    }

    /// Entries of every context above a stage 2 whose walk used the stale stage-2 `record`, and those below a kept table.
    pub(crate) fn entries_beyond(&self, record: &Entry) -> Vec<Held> {
        let mut found = Vec::new();
        let through = Some(Through::Record(*record));
        let mut gather = |tag, first, last| {
            let question = Question { through, ..Question::about(first, last) };
            self.each_reached(tag, &question, &mut |seen, holders| {
                if let Found::Entry { entry, is_untranslated: false, .. } = seen.found
                    && seen.route.is_through
                {
                    merge_into(&mut found, entry, holders);
                }
            });
        };
        if record.is_table() {
            gather(record.tag, record.own_start, record.own_last());
        }
        for (_, state) in self.spaces() {
            if state.beneath.is_some_and(|beneath| self.space(beneath).space.tag() == record.tag) {
                gather(state.space.tag(), state.space.bounds().0, state.space.bounds().1);
            }
        }
        found
    }

    /// Whatever of `before` can no longer be reached becomes stale, except what is spared. Returns what did.
    pub(crate) fn lose(&mut self, before: Vec<Held>, origin: Origin, spared: Spared<'_>) -> Vec<Held> {
        let mut lost = Vec::new();
        for (entry, mut holders) in before {
            holders.subtract(&self.reachable_holders(&entry));
            if !holders.is_empty() {
                holders.subtract(&spared(&entry, &holders));
                self.stale.add(entry, &holders, origin);
                lost.push((entry, holders));
            }
        }
        lost
    }

    /// A DSB of `cpu` makes its stores visible to `walkers`.
    pub(crate) fn finish_stores(&mut self, cpu: u8, walkers: Cpus, event: u64) {
        for word in self.visible.unfinished_by(cpu) {
            let origin = Origin { event, cpu, word: Some(word) };
            self.hide_old(origin, word, walkers, |visible| visible.finish(cpu, word, walkers));
        }
    }

    /// A DSB of `cpu` comes after stores that are settled: its own walker sees them.
    pub(crate) fn finish_settled(&mut self, cpu: u8, event: u64) {
        for word in self.visible.settled_for(cpu) {
            let origin = Origin { event, cpu, word: Some(word) };
            self.hide_old(origin, word, 1 << cpu, |visible| visible.finish_settled(word, 1 << cpu));
        }
    }

    /// The broadcast TLBIs of `cpu` are about to be complete: no walk misses a store that was settled before them, and they
    /// end what such walks had found.
    pub(crate) fn finish_sweeps(&mut self, cpu: u8, event: u64) {
        let (done, open): (Vec<Sweep>, Vec<Sweep>) =
            core::mem::take(&mut self.sweeps).into_iter().partition(|it| it.issuer == cpu);
        self.sweeps = open;
        for Sweep { selector, word, event: until, .. } in done {
            if let Some(unset) = self.unset.get_mut(&word) {
                unset.is_swept |= unset.stored <= until;
            }
            let origin = Origin { event, cpu, word: Some(word) };
            for (entry, lost) in self.hide_old(origin, word, !0, |visible| visible.finish_swept(word, until)) {
                if let Ok((holders, holes)) = selector.select(&entry, &lost) {
                    let mark = Mark { issuer: cpu, selector, holders, holes, awaits_sync: false };
                    self.stale.mark(&entry, mark);
                }
            }
        }
    }

    /// `finish` takes old values of `word` out of sight of `walkers`: what was derived from them becomes stale, and is
    /// returned.
    fn hide_old(
        &mut self,
        origin: Origin,
        word: u64,
        walkers: Cpus,
        finish: impl FnOnce(&mut Visible) -> Vec<Lost>,
    ) -> Vec<Held> {
        let current = self.memory.word(word);
        let old: Vec<u64> = self.visible.old(word).iter().map(|old| old.value).collect();
        let mut before = Vec::new();
        for value in old {
            for (entry, mut holders) in self.entries_through(word, value) {
                holders.restrict(walkers);
                before.push((entry, holders));
            }
        }
        for lost in finish(&mut self.visible) {
            if lost.value & VALID == 0 && current & VALID != 0 {
                self.late.add(word, origin.event, lost.settled.unwrap_or(origin.event));
            }
        }
        let lost = self.lose(before, origin, &spare_none);
        self.forget_hidden(word);
        lost
    }

    fn forget_hidden(&mut self, word: u64) {
        let mut values: Vec<u64> = self.visible.old(word).iter().map(|old| old.value).collect();
        values.push(self.memory.word(word));
        for place in self.places_of(word) {
            let state = self.space_mut(place.space);
            if !state.hidden.is_empty() {
                state.hidden.retain(|(other, value), _| *other != word || values.contains(value));
            }
        }
    }

    /// A table just linked by `cpu`: what it stored there without a barrier may be seen later than the link.
    /// Returns such a word.
    pub(crate) fn link_loose(&mut self, cpu: u8) -> Option<u64> {
        let words: Vec<(u64, u64)> = self
            .loose
            .range((cpu, 0)..=(cpu, u64::MAX))
            .map(|(&(_, word), &old)| (word, old))
            .filter(|(word, _)| !self.index.is_plain(*word) && !self.places_of(*word).is_empty())
            .collect();
        for (word, old) in &words {
            self.loose.remove(&(cpu, *word));
            self.visible.store(cpu, *word, *old);
            for place in self.places_of(*word) {
                self.index_value(place.space, place.level, *old, place.start, Hierarchy::default());
            }
        }
        words.first().map(|(word, _)| *word)
    }

    /// A barrier that orders `cpu`'s stores.
    pub(crate) fn order_stores(&mut self, cpu: u8) {
        while let Some((&key, _)) = self.loose.range((cpu, 0)..=(cpu, u64::MAX)).next() {
            self.loose.remove(&key);
        }
    }

    /// From now on `live` may walk `space`; whoever may not any more has left it. Returns who is new.
    pub(crate) fn set_live(&mut self, space: SpaceId, live: Holders) -> Holders {
        let state = self.space_mut(space);
        let is_unknown = !state.is_used();
        let (mut gone, mut come) = (state.live.clone(), live.clone());
        gone.subtract(&live);
        come.subtract(&state.live);
        state.live = live;
        for mark in &mut state.kept.marks {
            mark.holders.subtract(&gone);
        }
        state.kept.holders.merge(&gone);
        state.kept.holders.subtract(&come);
        for hidden in state.hidden.values_mut() {
            hidden.subtract(&come);
        }
        state.hidden.retain(|_, hidden| !hidden.is_empty());
        if is_unknown && !come.is_empty() {
            self.index_space(space);
            // Without it, tables of contexts above could not be found.
            self.index_above(space, 0, u64::MAX);
        }
        come
    }

    /// A complete TLBI ends what was kept of `space` by the holders of its marks.
    /// `keeps` still have to synchronize.
    pub(crate) fn complete_kept(&mut self, issuer: u8, is_done: &dyn Fn(&Mark) -> Option<Cpus>, keeps: Cpus) {
        for id in 0..self.space_count() {
            let state = self.space_mut(id);
            if state.kept.marks.is_empty() {
                continue;
            }
            let mut marks = Vec::new();
            for mut mark in core::mem::take(&mut state.kept.marks) {
                let done = if mark.issuer == issuer { is_done(&mark) } else { None };
                if let Some(cpus) = done {
                    let mut going = mark.holders.clone();
                    going.restrict(cpus & !keeps);
                    // Holes stand for "all but global entries" here.
                    let globals = going.cpus() & state.kept.holders.cpus();
                    state.kept.holders.subtract(&going);
                    if mark.holes != 0 && state.has_global {
                        state.kept.holders.add(GLOBAL, globals);
                    }
                    mark.holders.subtract(&going);
                    mark.awaits_sync = keeps != 0;
                }
                if !mark.holders.is_empty() {
                    marks.push(mark);
                }
            }
            state.kept.marks = marks;
            if !state.is_used() {
                state.hidden.clear();
            }
        }
    }

    /// `stage2` may have another answer for intermediate addresses `first..=last`: tables of stage 1 that are there may
    /// have moved, so their words are noted anew.
    pub(crate) fn index_above(&mut self, stage2: SpaceId, first: u64, last: u64) {
        let is_moved = |tables: &BTreeSet<u64>| {
            // A table of 64 KiB or a concatenated root reaches further than its first page.
            tables.range((first >> 12).saturating_sub(255)..=last >> 12).next().is_some()
        };
        let above: Vec<SpaceId> = self
            .spaces()
            .filter(|(_, it)| it.beneath == Some(stage2) && it.is_used() && is_moved(&it.tables))
            .map(|(id, _)| id)
            .collect();
        for id in above {
            self.index_space(id);
        }
    }
}

fn merge_into(found: &mut Vec<Held>, entry: Entry, holders: &Holders) {
    match found.iter_mut().find(|(other, _)| *other == entry) {
        Some((_, known)) => known.merge(holders),
        None => found.push((entry, holders.clone())),
    }
}
