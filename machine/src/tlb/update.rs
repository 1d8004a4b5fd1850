//! How the may-TLB changes: stores make more reachable; DSBs, TLBIs and context switches end reachability, and what ends
//! without having been invalidated becomes stale.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::entry::{Entry, SpaceId};
use super::found::{Found, Seen};
use super::holders::{Cpus, GLOBAL, Held, Holders};
use super::late::Late;
use super::may::{May, Unseen};
use super::places::Place;
use super::question::{Question, Through};
use super::stale::{Mark, Origin};
use super::visible::{Lost, words_of};
use crate::context::{Regime, Tag};
use crate::descriptor::{Hierarchy, VALID};

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
        self.store_over(cpu, word);
        if self.index.is_plain(word) && self.visible.old(word).is_empty() {
            if old != value {
                let unseen = Unseen { cpus: !0, over: 0, settled: None };
                self.loose.entry((cpu, word)).or_insert((old, unseen)).1 = unseen;
            }
            self.memory.set_word(word, value);
            return;
        }
        self.hide_from_kept(word, value);
        self.visible.store(cpu, word, old);
        self.memory.set_word(word, value);
        self.forget_word(word, &[old, value]);
        for place in self.places_of(word).iter() {
            self.index_value((place.space, place.level, word), value, place.start, Hierarchy::default());
        }
    }

    /// `cpu` stores over what others stored to `word` when it was of no table: once it has finished that, they have too.
    fn store_over(&mut self, cpu: u8, word: u64) {
        let last = [self.loose.keys().next_back(), self.unseen.keys().next_back()].into_iter().flatten().max();
        for key in (0..=last.map_or(0, |key| key.0)).filter(|other| *other != cpu).map(|other| (other, word)) {
            let loose = self.loose.get_mut(&key).map(|(_, unseen)| unseen);
            loose.into_iter().chain(self.unseen.get_mut(&key)).for_each(|it| it.over |= 1 << cpu);
        }
    }

    /// `word`, to which no walk comes, holds `value`. Whoever comes there later looks anew at what the table leads to.
    pub(crate) fn learn(&mut self, word: u64, value: u64) {
        let old = self.memory.set_word(word, value);
        self.freed.forget(word);
        self.forget_word(word, &[old, value]);
        for place in self.places_of(word).iter() {
            let state = self.space_mut(place.space);
            state.is_forgotten |= state.live.is_empty();
        }
    }

    /// Hardware sets the access flag or the dirty state: at once, for everybody. Entries stay as they are: whoever sets as much by
    /// itself holds them as set; whoever sets less may keep them as they were, for nobody tells its TLB.
    pub(crate) fn store_by_hardware(&mut self, origin: Origin, word: u64, value: u64) {
        self.unset.remove(&word);
        let is_seen = self.visible.old(word).iter().any(|old| old.value == value);
        let old = self.memory.word(word);
        let places = self.places_of(word);
        // For whoever sets as much both are one.
        let is_told_apart = places.iter().any(|place| {
            let format = self.space(place.space).space.format();
            format.settled(place.level, old) != format.settled(place.level, value)
        });
        let before = if is_told_apart { self.entries_through(word, old) } else { Vec::new() };
        self.memory.set_word(word, value);
        for place in places.iter().filter(|_| !is_seen) {
            // Who could not see what was written there does not see it marked either.
            let hidden = &mut self.space_mut(place.space).hidden;
            if let Some(holders) = hidden.remove(&(word, old)) {
                hidden.insert((word, value), holders);
            }
        }
        self.forget_word(word, &[old, value]);
        if is_told_apart {
            self.lose(before, origin, &spare_none);
        }
    }

    /// Contexts that a CPU has left cannot be walked by it: what is stored now is out of its reach.
    fn hide_from_kept(&mut self, word: u64, value: u64) {
        if self.visible.old(word).iter().any(|old| old.value == value) {
            return;
        }
        for place in self.places_of(word).iter() {
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
        for place in self.places_of(word).iter() {
            let question = Question {
                through: Some(Through::Word(word, value)),
                is_only_through: true,
                wants_faults: false,
                ..Question::at(word, place)
            };
            let tag = self.space(place.space).space.tag();
            found.append(&mut self.agreed(&question, |question| {
                self.gather(tag, question, |seen, entry| {
                    seen.word == word && (entry.space, entry.level) == (place.space, place.level)
                })
            }));
        }
        found
    }

    /// Entries of every context above a stage 2 whose walk used the stale stage-2 `record`, and those below a kept table.
    pub(crate) fn entries_beyond(&self, record: &Entry) -> Vec<Held> {
        let through = Some(Through::Record(*record));
        let question = Question { through, is_only_through: true, ..Question::EVERYWHERE };
        self.agreed(&question, |question| {
            let mut found = Vec::new();
            if record.is_table() {
                let question = Question { first: record.own_start, last: record.own_last(), ..*question };
                found = self.gather(record.tag, &question, |_, _| true);
            }
            if record.tag.regime == Regime::Stage2 {
                found.append(&mut self.gather(Tag::el10(record.tag.vmid), question, |_, _| true));
            }
            found
        })
    }

    /// The entries that `question` asks for and whose walk used what it names.
    fn gather(&self, tag: Tag, question: &Question, is_asked: impl Fn(&Seen<'_>, &Entry) -> bool) -> Vec<Held> {
        let mut found: BTreeMap<Entry, Holders> = BTreeMap::new();
        self.each_reached(tag, question, &mut |seen, holders| {
            if let Found::Entry { entry, is_untranslated: false } = seen.found
                && seen.route.is_through
                && is_asked(seen, &entry)
            {
                found.entry(entry).or_default().merge(holders);
            }
        });
        found.into_iter().collect()
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
        self.show(walkers, |by, unseen| by == cpu || unseen.over >> cpu & 1 == 1);
        for word in self.visible.unfinished_by(cpu) {
            let origin = Origin { event, cpu, word: Some(word) };
            self.hide_old(origin, word, self.visible.newest_by(cpu, word), walkers);
        }
    }

    /// A DSB of `cpu` comes after what was settled `until` then: its own walker sees that.
    pub(crate) fn finish_settled(&mut self, cpu: u8, event: u64, until: u64) {
        self.show(1 << cpu, |_, unseen| unseen.settled.is_some_and(|settled| settled <= until));
        for word in self.visible.settled_for(cpu) {
            let origin = Origin { event, cpu, word: Some(word) };
            self.hide_old(origin, word, self.visible.newest_settled(word, until), 1 << cpu);
        }
    }

    /// Old values of `word`, up to the one at `newest`, go out of sight of `walkers`: what was derived from them becomes
    /// stale, and is returned.
    pub(super) fn hide_old(&mut self, origin: Origin, word: u64, newest: Option<usize>, walkers: Cpus) -> Vec<Held> {
        let current = self.memory.word(word);
        let mut values: Vec<u64> = self.visible.old(word).iter().map(|old| old.value).collect();
        values.push(current);
        let hidden = self.visible.hidden_by(word, newest, walkers);
        let mut before = Vec::new();
        for Lost { value, walkers, settled } in hidden.into_iter().filter(|lost| lost.value != current) {
            // Who still sees the value still reaches them.
            before.append(&mut self.entries_through(word, value));
            if value & VALID == 0 && current & VALID != 0 {
                let settled = settled.unwrap_or(origin.event);
                self.late.add(word, Late { event: origin.event, settled, walkers });
            }
        }
        self.visible.hide(word, newest, walkers);
        self.forget_word(word, &values);
        let lost = self.lose(before, origin, &spare_none);
        self.forget_hidden(word);
        lost
    }

    fn forget_hidden(&mut self, word: u64) {
        let mut values: Vec<u64> = self.visible.old(word).iter().map(|old| old.value).collect();
        values.push(self.memory.word(word));
        for place in self.places_of(word).iter() {
            let state = self.space_mut(place.space);
            state.hidden.retain(|(other, value), _| *other != word || values.contains(value));
        }
    }

    /// A table just linked by `cpu`: what it stored there without a barrier may be seen later than the link.
    /// Returns such a word.
    pub(crate) fn link_loose(&mut self, cpu: u8) -> Option<u64> {
        let words: Vec<(u64, u64)> = self
            .loose
            .range(words_of(cpu))
            .map(|(&(_, word), &(old, _))| (word, old))
            .filter(|(word, _)| !self.index.is_plain(*word) && self.is_walked(*word))
            .collect();
        for (word, old) in &words {
            self.loose.remove(&(cpu, *word));
            self.visible.store(cpu, *word, *old);
            self.forget_word(*word, &[*old, self.memory.word(*word)]);
            for place in self.places_of(*word).iter() {
                self.index_value((place.space, place.level, *word), *old, place.start, Hierarchy::default());
            }
        }
        words.first().map(|(word, _)| *word)
    }

    /// Whether some walk comes to `word`.
    pub(crate) fn is_walked(&self, word: u64) -> bool {
        self.places_of(word).iter().any(|place| self.is_walked_at(word, place))
    }

    /// Whether some walk comes to `word` at this place. One that was left behind says nothing: it stays until the memory is given away
    /// or is a table elsewhere.
    pub(crate) fn is_walked_at(&self, word: u64, place: &Place) -> bool {
        let mut is_met = false;
        self.each_met(place.space, &Question::at(word, place), &mut |seen| is_met |= seen.word == word);
        is_met
    }

    /// A barrier that orders `cpu`'s stores.
    pub(crate) fn order_stores(&mut self, cpu: u8) {
        while let Some((&key, &(_, unseen))) = self.loose.range(words_of(cpu)).next() {
            self.loose.remove(&key);
            self.unseen.insert(key, unseen);
        }
    }

    /// `cpu` gives a lock away behind what it stored to memory that is no table yet. That orders no store behind the lock.
    pub(crate) fn settle_unseen(&mut self, cpu: u8, event: u64) {
        let loose = self.loose.range_mut(words_of(cpu)).map(|(_, (_, unseen))| unseen);
        let unseen = self.unseen.range_mut(words_of(cpu)).map(|(_, unseen)| unseen);
        loose.chain(unseen).for_each(|it| it.settled = it.settled.or(Some(event)));
    }

    /// A DSB has made what a CPU stored to memory that is no table yet visible to `walkers`.
    fn show(&mut self, walkers: Cpus, is_shown: impl Fn(u8, &Unseen) -> bool) {
        self.loose.retain(|key, (_, unseen)| {
            unseen.cpus &= if is_shown(key.0, unseen) { !walkers } else { !0 };
            unseen.cpus != 0
        });
        self.unseen.retain(|key, unseen| {
            unseen.cpus &= if is_shown(key.0, unseen) { !walkers } else { !0 };
            unseen.cpus != 0
        });
    }

    /// A word of a table of `space` that walkers of `cpus` need not see yet.
    pub(crate) fn unseen_in(&mut self, space: SpaceId, cpus: Cpus) -> Option<u64> {
        let loose = self.loose.iter().map(|(key, (_, unseen))| (*key, unseen));
        let all = loose.chain(self.unseen.iter().map(|(key, unseen)| (*key, unseen)));
        let mut keys = all.filter(|(_, unseen)| unseen.cpus & cpus != 0).map(|(key, _)| key);
        let key = keys.find(|key| self.places_of(key.1).iter().any(|place| place.space == space))?;
        self.loose.remove(&key);
        self.unseen.remove(&key);
        Some(key.1)
    }

    /// From now on `live` may walk `space`; whoever may not any more has left it. Returns who is new.
    pub(crate) fn set_live(&mut self, space: SpaceId, live: Holders) -> Holders {
        let state = self.space_mut(space);
        if live == state.live {
            return Holders::none();
        }
        let is_unknown = !state.is_used() || core::mem::take(&mut state.is_forgotten);
        let (mut gone, mut come) = (state.live.clone(), live.clone());
        gone.subtract(&live);
        come.subtract(&state.live);
        state.live = live;
        for mark in &mut state.kept.marks {
            mark.holders.subtract(&gone);
        }
        state.kept.passed.forget(&gone);
        state.kept.holders.merge(&gone);
        state.kept.holders.subtract(&come);
        state.hidden.values_mut().for_each(|hidden| hidden.subtract(&come));
        state.hidden.retain(|_, hidden| !hidden.is_empty());
        self.forget_space(space);
        if !come.is_empty() {
            self.note_root(space);
        }
        if is_unknown {
            self.index_space(space);
            // Without it, tables of contexts above could not be found.
            let Question { first, last, .. } = Question::EVERYWHERE;
            self.index_above(space, first, last);
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
                    if mark.is_first {
                        mark.holders.subtract(&going);
                        state.kept.passed.note(going, mark.holes, mark.selector);
                        marks.extend((!mark.holders.is_empty()).then_some(mark));
                        continue;
                    }
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
            self.forget_space(id);
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
