//! Reaching through stage 2: where a stage-1 table really is, and what a stage-1 leaf really translates to.
//! A stale stage-2 entry serves both, which is why stage 2 must be invalidated before stage 1 and not after.
//! (DDI 0487, D8.17.5: order of stage-2 and stage-1 invalidation)

use alloc::vec::Vec;

use super::chunk::Chunk;
use super::entry::{Body, Entry, Second, SpaceId};
use super::may::{May, SpaceState};
use super::reach::{Found, Question, Route, Seen, Start, Through};
use crate::attributes::Permissions;
use crate::context::{Regime, Stage1, Stage2, Tag};
use crate::descriptor::stage2::combine;
use crate::syndrome::FaultKind;

type Sink<'s> = &'s mut dyn FnMut(&Seen<'_>);

/// Stage 2's answer for some intermediate addresses.
struct Answer {
    entry: Entry,
    is_untranslated: bool,
    route: Route,
}

impl May {
    /// Finds the physical place of the 4 KiB around `address`, part of the table at `start`; where stage 2 has none, a walk
    /// of the descriptor at `fault` faults.
    #[expect(clippy::too_many_arguments, reason = "one piece of one table on one route")]
    pub(crate) fn locate(
        &self,
        state: &SpaceState,
        start: &Start,
        address: u64,
        fault: Option<u64>,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) -> Chunk<'_> {
        let page = address & !0xfff;
        if state.beneath.is_none() || start.is_located {
            return Chunk::new(self, page >> 12, alloc::vec![(page, route.clone())]);
        }
        let places = self.places(state, page, route, question);
        if let Some(fault) = fault {
            self.faults_beneath(state, fault, true, route, sink);
        }
        Chunk::new(self, page >> 12, places)
    }

    /// The physical pages that the intermediate page of `address` may be.
    pub(crate) fn places(
        &self,
        state: &SpaceState,
        address: u64,
        route: &Route,
        question: &Question,
    ) -> Vec<(u64, Route)> {
        let page = address & !0xfff;
        let mut places = Vec::new();
        for answer in self.answers(state, page, page | 0xfff, question.through) {
            let readable = answer.entry.attributes().is_some_and(|it| it.permissions.has(Permissions::READ));
            let mut both = answer.route;
            both.walkers &= route.walkers;
            if !readable || both.walkers == 0 {
                continue;
            }
            both.hidden = route.hidden.clone();
            both.is_current &= route.is_current;
            both.is_through |= route.is_through;
            places.push((answer.entry.output_at(page), both));
        }
        places
    }

    /// Stage 2's leaves for intermediate addresses `first..=last`: walked, or kept. Its holders become walkers, for
    /// stage 2 has no ASIDs.
    fn answers(&self, state: &SpaceState, first: u64, last: u64, through: Option<Through>) -> Vec<Answer> {
        let Some(beneath) = state.beneath else { return Vec::new() };
        let mut answers = Vec::new();
        let question = Question { through, ..Question::about(first, last) };
        self.each_seen(self.space(beneath).space.tag(), &question, &mut |seen, holders| {
            if let Found::Entry { entry, is_untranslated, .. } = seen.found
                && !entry.is_table()
            {
                let route = Route { walkers: holders.cpus(), ..seen.route.clone() };
                answers.push(Answer { entry, is_untranslated, route });
            }
        });
        answers
    }

    fn faults_beneath(&self, state: &SpaceState, address: u64, is_on_walk: bool, route: &Route, sink: Sink<'_>) {
        let Some(beneath) = state.beneath else { return };
        let question = Question { wants_faults: true, ..Question::about(address, address) };
        let tag = self.space(beneath).space.tag();
        self.each_seen(tag, &question, &mut |seen, holders| {
            let (kind, level) = match seen.found {
                Found::Fault { kind, level, .. } => (kind, level),
                Found::Entry { entry, .. } if is_on_walk => match entry.attributes() {
                    Some(it) if !it.permissions.has(Permissions::READ) => (FaultKind::Permission, entry.level),
                    _ => return,
                },
                Found::Entry { .. } => return,
            };
            let mut both = route.clone();
            both.walkers &= holders.cpus();
            let found = Found::Fault { kind, level, is_stage2: true, is_on_walk, intermediate: address };
            if both.walkers != 0 {
                sink(&Seen { found, word: seen.word, is_old: seen.is_old, route: &both });
            }
        });
    }

    /// Splits a stage-1 leaf into what stage 2 makes of it: the smaller of both sizes.
    #[expect(clippy::too_many_arguments, reason = "one stage-1 leaf on one route")]
    pub(crate) fn reach_combined(
        &self,
        state: &SpaceState,
        leaf: &Entry,
        word: u64,
        is_untranslated: bool,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        let Some(stage2) = state.space.stage2() else { return };
        let (first, last) = (question.first.max(leaf.start), question.last.min(leaf.last()));
        let (from, to) = (leaf.output_at(first), leaf.output_at(last));
        // Asked for what comes through one stage-2 entry, only its addresses matter.
        if let Some(Through::Record(record)) = question.through
            && record.tag.regime == Regime::Stage2
            && !route.is_through
            && (record.start.min(record.own_start) > to || record.last().max(record.own_last()) < from)
        {
            return;
        }
        for answer in self.answers(state, from, to, question.through) {
            let mut both = answer.route.clone();
            both.walkers &= route.walkers;
            both.hidden = route.hidden.clone();
            both.is_current &= route.is_current;
            both.is_through |= route.is_through;
            if both.walkers == 0 {
                continue;
            }
            let entry = join(stage2, leaf, &answer.entry);
            // A set that stage 2 cuts up is cached around the descriptor that was walked, not elsewhere.
            if entry.start > leaf.own_last() || entry.last() < leaf.own_start {
                continue;
            }
            let is_untranslated = is_untranslated || answer.is_untranslated;
            sink(&Seen { found: Found::Entry { entry, is_untranslated }, word, is_old: false, route: &both });
        }
        if question.wants_faults && question.first == question.last {
            self.faults_beneath(state, from, false, route, sink);
        }
    }

    /// Stage 1 is off: stage 2 alone, as combined entries of EL1&0.
    pub(crate) fn reach_flat(
        &self,
        space: SpaceId,
        stage1: &Stage1,
        route: &Route,
        question: &Question,
        sink: Sink<'_>,
    ) {
        let state = self.space(space);
        let (mut first, mut last) = (question.first, question.last.min(stage1.bounds().1));
        if let Some(Through::Record(record)) = question.through
            && record.tag.regime == Regime::Stage2
        {
            first = first.max(record.start.min(record.own_start));
            last = last.min(record.last().max(record.own_last()));
        }
        if first > last {
            return;
        }
        for answer in self.answers(state, first, last, question.through) {
            let mut both = answer.route.clone();
            both.walkers &= route.walkers;
            both.is_current &= route.is_current;
            both.is_through |= route.is_through;
            if both.walkers == 0 {
                continue;
            }
            let entry = flat(stage1.tag, space, &answer.entry);
            let found = Found::Entry { entry, is_untranslated: answer.is_untranslated };
            sink(&Seen { found, word: 0, is_old: false, route: &both });
        }
        if question.wants_faults && question.first == question.last {
            self.faults_beneath(state, question.first, false, route, sink);
        }
    }
}

/// The combined entry of a stage-1 leaf and the stage-2 leaf beneath some of it.
pub(crate) fn join(stage2: &Stage2, first: &Entry, second: &Entry) -> Entry {
    debug_assert!(second.tag.regime == Regime::Stage2);
    let (Some(upper), Some(lower)) = (first.attributes(), second.attributes()) else { return *first };
    let attributes = combine(stage2, *upper, *lower);
    let from = first.output_at(first.start);
    let (start, size_log2) = if second.size_log2 < first.size_log2 {
        (first.start.wrapping_add(second.start.wrapping_sub(from)), second.size_log2)
    } else {
        (first.start, first.size_log2)
    };
    let output = second.output_at(first.output_at(start));
    let intermediate = first.output_at(start);
    let second = Some(Second { level: second.level, permissions: lower.permissions, intermediate });
    Entry { start, size_log2, second, body: Body::Leaf { output, attributes }, ..*first }
}

/// The combined entry of a stage 2 with stage 1 off.
pub(crate) fn flat(tag: Tag, space: SpaceId, second: &Entry) -> Entry {
    let permissions = second.attributes().map_or(Permissions::NONE, |it| it.permissions);
    let half = Second { level: second.level, permissions, intermediate: second.start };
    Entry { tag, is_combined: true, second: Some(half), space, ..*second }
}
