//! What walkers may find now: every walk from every root and from every kept table entry, with every value that a word
//! may still show. Nothing of this is stored; it is computed for the addresses that a question is about.

use super::entry::{Body, Entry, SpaceId, bytes};
use super::found::{Found, Route, Seen, Sink, Start};
use super::holders::{Cpus, GLOBAL, Holders};
use super::may::May;
use super::question::{Only, Question, Through};
use super::space::{Space, SpaceState};
use crate::attributes::Attributes;
use crate::descriptor::{CONTIGUOUS, Descriptor, Hierarchy, VALID};
use crate::syndrome::FaultKind;

impl May {
    /// Everything that walks of `space` from its root find.
    pub(crate) fn reach_root(&self, space: SpaceId, walkers: Cpus, question: &Question, sink: Sink<'_>) {
        let state = self.space(space);
        if let Space::One(stage1) = &state.space
            && stage1.is_flat
        {
            return self.reach_flat(space, stage1, &Route::from(walkers), question, sink);
        }
        if !state.space.is_beyond() {
            return self.reach_table(space, &state.space.start(), &Route::from(walkers), question, sink);
        }
        if question.wants_faults {
            let (kind, is_stage2) = (FaultKind::AddressSize, matches!(state.space, Space::Two(_)));
            let (level, is_on_walk, intermediate) = (0, false, question.first);
            let found = Found::Fault { kind, level, is_stage2, is_on_walk, intermediate, is_old: false };
            sink(&Seen { found, word: u64::MAX, route: &Route::from(walkers) });
        }
    }

    /// Everything that walks find which go on from `entry`, a table entry.
    pub(crate) fn reach_kept(&self, entry: &Entry, walkers: Cpus, question: &Question, sink: Sink<'_>) {
        let Body::Table { next, hierarchy } = entry.body else { return };
        let mut route = Route::from(walkers);
        route.is_current = false;
        route.is_through = matches!(question.through, Some(Through::Record(record)) if record == *entry);
        let start = Start { table: next, is_located: true, level: entry.level + 1, base: entry.own_start, hierarchy };
        if start.level > question.deepest {
            return;
        }
        self.reach_table(entry.space, &start, &route, question, sink);
    }

    /// What one value of one word leads to.
    #[expect(clippy::too_many_arguments, reason = "one value of one word on one route")]
    pub(super) fn step_from(
        &self,
        slot: &Slot<'_>,
        value: u64,
        walkers: Cpus,
        is_current: bool,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        let is_set = value & (CONTIGUOUS | VALID) == CONTIGUOUS | VALID;
        if !slot.is_inside && !is_set || route.walkers & walkers == 0 {
            return;
        }
        let format = slot.state.space.format();
        let level = slot.start.level;
        let descriptor = format.settled(level, value);
        // Nothing lies beyond the last level.
        if level == 3 && !question.wants_faults && !question.wants(level, slot.word, descriptor) {
            return;
        }
        self.effort.spend();
        let mut route = route.clone();
        route.walkers &= walkers;
        route.is_current &= is_current;
        route.is_through |=
            matches!(question.through, Some(Through::Word(word, through)) if word == slot.word && through == value);
        if let Some(hidden) = slot.state.hidden.get(&(slot.word, value)) {
            route.hidden.merge(hidden);
        }
        let shift = slot.state.space.geometry().slot_shift(level);
        let own_start = slot.start.base + (slot.index << shift);
        let kind = match format.decode(level, descriptor, slot.start.hierarchy) {
            Descriptor::Table { next, hierarchy } if slot.is_inside => {
                return self.step_down(slot, own_start, next, hierarchy, descriptor, &route, question, sink);
            }
            Descriptor::Leaf { output, attributes, is_untranslated } => {
                if question.wants(level, slot.word, descriptor) {
                    let entry = leaf_entry(slot.state, slot.space, level, own_start, descriptor, output, attributes);
                    self.step_on_leaf(slot, entry, is_untranslated, &route, question, sink);
                }
                return;
            }
            Descriptor::Table { .. } => return,
            Descriptor::Invalid => FaultKind::Translation,
            Descriptor::AddressSize => FaultKind::AddressSize,
            Descriptor::AccessFlag => FaultKind::AccessFlag,
        };
        if question.wants_faults && slot.is_inside {
            // Whose stage 2 it is beneath says so, and where.
            let (is_stage2, is_on_walk, intermediate) = (false, false, 0);
            let found = Found::Fault { kind, level, is_stage2, is_on_walk, intermediate, is_old: !is_current };
            sink(&Seen { found, word: slot.word, route: &route });
        }
    }

    /// A table descriptor: an entry of its own, and more to walk.
    #[expect(clippy::too_many_arguments, reason = "the decoded fields of one descriptor")]
    fn step_down(
        &self,
        slot: &Slot<'_>,
        own_start: u64,
        next: u64,
        hierarchy: Hierarchy,
        descriptor: u64,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        let below = Start { table: next, is_located: false, level: slot.start.level + 1, base: own_start, hierarchy };
        if question.only != Some(Only::Leaves) && question.wants(slot.start.level, slot.word, descriptor) {
            self.step_on_table(slot, &below, descriptor, route, question, sink);
        }
        if below.level <= question.deepest {
            self.reach_table(slot.space, &below, route, question, sink);
        }
    }

    /// A leaf; above a stage 2, what that makes of it.
    fn step_on_leaf(
        &self,
        slot: &Slot<'_>,
        entry: Entry,
        is_untranslated: bool,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        if slot.state.beneath.is_some() {
            return self.reach_combined(slot.state, &entry, slot.word, is_untranslated, route, question, sink);
        }
        sink(&Seen { found: Found::Entry { entry, is_untranslated }, word: slot.word, route });
    }

    /// The table entry itself. Beneath a stage 2, a walk cache may hold where the next table really is.
    fn step_on_table(
        &self,
        slot: &Slot<'_>,
        below: &Start,
        descriptor: u64,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        let geometry = slot.state.space.geometry();
        let own_log2 = geometry.slot_shift(slot.start.level);
        let (next, hierarchy) = (below.table, below.hierarchy);
        let mut entry = Entry {
            tag: slot.state.space.tag(),
            size_log2: own_log2,
            start: below.base,
            own_start: below.base,
            own_log2,
            level: slot.start.level,
            granule: geometry.granule,
            is_combined: slot.state.beneath.is_some(),
            second: None,
            descriptor,
            body: Body::Table { next, hierarchy },
            holes: 0,
            space: slot.space,
        };
        let mut see = |next, route: &Route| {
            self.effort.spend();
            entry.body = Body::Table { next, hierarchy };
            let found = Found::Entry { entry, is_untranslated: false };
            sink(&Seen { found, word: slot.word, route });
        };
        match slot.state.beneath {
            Some(_) => self.each_way(slot.state, next, route, question, &mut see),
            None => see(next, route),
        }
    }

    /// Whoever may hold what `route` found, walking from the root of `state`.
    pub(crate) fn root_holders(state: &SpaceState, entry: &Entry, route: &Route) -> Holders {
        let visible = |asid, kept: Cpus| kept & !route.hidden.exactly(asid) & route.walkers;
        if entry.is_global() {
            let kept = state.kept.holders.iter().fold(0, |all, (asid, kept)| all | visible(asid, kept));
            return Holders::of(GLOBAL, state.live.cpus() & route.walkers | kept);
        }
        let mut holders = Self::tagged(entry, &state.live, route.walkers);
        for (asid, kept) in state.kept.holders.iter() {
            if asid != GLOBAL {
                holders.add(asid, visible(asid, kept));
            }
        }
        holders
    }

    /// `holders` as they hold `entry`: global entries lose their ASIDs, others are not kept by who kept only globals.
    pub(crate) fn tagged(entry: &Entry, holders: &Holders, walkers: Cpus) -> Holders {
        if entry.is_global() {
            return Holders::of(GLOBAL, holders.cpus() & walkers);
        }
        let mut tagged = Holders::none();
        holders.iter().for_each(|(asid, cpus)| tagged.add(asid, cpus & walkers));
        tagged
    }
}

/// One entry of one table, somewhere in memory.
pub(super) struct Slot<'a> {
    pub(super) space: SpaceId,
    pub(super) state: &'a SpaceState,
    pub(super) start: &'a Start,
    pub(super) index: u64,
    pub(super) word: u64,
    pub(super) is_inside: bool,
}

/// The entry of a leaf of `level` for input addresses from `own_start`; with the Contiguous bit, of its whole set.
pub(crate) fn leaf_entry(
    state: &SpaceState,
    space: SpaceId,
    level: i8,
    own_start: u64,
    descriptor: u64,
    output: u64,
    attributes: Attributes,
) -> Entry {
    let geometry = state.space.geometry();
    let own_log2 = geometry.slot_shift(level);
    let group = if attributes.is_contiguous { geometry.contiguous_log2(level).unwrap_or(0) } else { 0 };
    let size_log2 = own_log2 + group;
    let start = own_start & !(bytes(size_log2) - 1);
    let output = output.wrapping_sub(own_start - start);
    Entry {
        tag: state.space.tag(),
        size_log2,
        start,
        own_start,
        own_log2,
        level,
        granule: geometry.granule,
        is_combined: state.beneath.is_some(),
        second: None,
        descriptor,
        body: Body::Leaf { output, attributes },
        holes: 0,
        space,
    }
}
