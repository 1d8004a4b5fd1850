//! Reaching through stage 2: where a stage-1 table really is, and what a stage-1 leaf really translates to.
//! A stale stage-2 entry serves both, which is why stage 2 must be invalidated before stage 1 and not after.
//! (DDI 0487, D8.17.5: order of stage-2 and stage-1 invalidation)

use super::entry::{Body, Entry, Second, SpaceId};
use super::found::{Found, Route, Seen, Sink};
use super::may::May;
use super::question::{Question, Through};
use super::remembered::Way;
use super::space::SpaceState;
use crate::attributes::Permissions;
use crate::context::{Regime, Stage1, Stage2, Tag};
use crate::descriptor::stage2::combine;

impl May {
    /// Each place that stage 2 has for intermediate `address`, and the way there.
    pub(super) fn each_way(
        &self,
        state: &SpaceState,
        address: u64,
        route: &Route,
        question: &Question,
        sink: &mut dyn FnMut(u64, &Route),
    ) {
        let Some(beneath) = state.beneath else { return };
        let answers = self.answers(beneath, address, address, question);
        for way in answers.ways(question.wants_faults) {
            let both = route.and(way);
            if both.walkers != 0 {
                sink(way.page | (address & 0xfff), &both);
            }
        }
    }

    pub(super) fn faults_beneath(
        &self,
        state: &SpaceState,
        address: u64,
        is_on_walk: bool,
        route: &Route,
        sink: Sink<'_>,
    ) {
        let Some(beneath) = state.beneath else { return };
        for fault in &self.answers(beneath, address, address, &Question::about(address, address)).faults {
            let mut both = route.clone();
            both.walkers &= fault.walkers;
            if both.walkers == 0 || fault.is_of_walks && !is_on_walk {
                continue;
            }
            let (kind, level, is_old) = (fault.kind, fault.level, fault.is_old);
            let found = Found::Fault { kind, level, is_stage2: true, is_on_walk, intermediate: address, is_old };
            sink(&Seen { found, word: fault.word, route: &both });
        }
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
        let (Some(stage2), Some(beneath)) = (state.space.stage2(), state.beneath) else { return };
        let (first, last) = (question.first.max(leaf.start), question.last.min(leaf.last()));
        let (mut from, mut to) = (leaf.output_at(first), leaf.output_at(last));
        // Asked for what comes through one stage-2 entry, only its addresses matter.
        if question.is_only_through && !route.is_through {
            match question.through {
                Some(Through::Record(record)) if record.tag.regime == Regime::Stage2 => {
                    from = from.max(record.start.min(record.own_start));
                    to = to.min(record.last().max(record.own_last()));
                    if from > to {
                        return;
                    }
                }
                Some(through) if !self.is_through_stage2(Tag::stage2(stage2.vmid), &through, from, to) => return,
                _ => {}
            }
        }
        for answer in &self.answers(beneath, from, to, question).leaves {
            self.effort.spend();
            let both = route.and(&answer.way);
            if both.walkers == 0 {
                continue;
            }
            if !question.wants_joined(&answer.entry) {
                continue;
            }
            let entry = join(stage2, leaf, &answer.entry);
            // A set that stage 2 cuts up is cached around the descriptor that was walked, not elsewhere.
            if entry.start > leaf.own_last() || entry.last() < leaf.own_start {
                continue;
            }
            let is_untranslated = is_untranslated || answer.is_untranslated;
            sink(&Seen { found: Found::Entry { entry, is_untranslated }, word, route: &both });
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
        let Some(beneath) = state.beneath else { return };
        let (mut first, mut last) = (question.first, question.last.min(stage1.bounds().1));
        if question.is_only_through
            && let Some(Through::Record(record)) = question.through
        {
            first = first.max(record.start.min(record.own_start));
            last = last.min(record.last().max(record.own_last()));
        }
        if first > last {
            return;
        }
        for answer in &self.answers(beneath, first, last, question).leaves {
            self.effort.spend();
            let both = route.and(&answer.way);
            if both.walkers == 0 {
                continue;
            }
            let entry = flat(stage1.tag, space, &answer.entry);
            let found = Found::Entry { entry, is_untranslated: answer.is_untranslated };
            sink(&Seen { found, word: 0, route: &both });
        }
        if question.wants_faults && question.first == question.last {
            self.faults_beneath(state, question.first, false, route, sink);
        }
    }
}

impl Route {
    /// This way, and stage 2's answer for one step of it.
    fn and(&self, way: &Way) -> Self {
        Self {
            walkers: self.walkers & way.walkers,
            hidden: self.hidden.clone(),
            is_current: self.is_current && way.is_current,
            is_through: self.is_through || way.is_through,
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
    let Entry { level, own_log2, .. } = *second;
    let second = Some(Second { level, own_log2, permissions: lower.permissions, intermediate });
    Entry { start, size_log2, second, body: Body::Leaf { output, attributes }, ..*first }
}

/// The combined entry of a stage 2 with stage 1 off.
pub(crate) fn flat(tag: Tag, space: SpaceId, second: &Entry) -> Entry {
    let permissions = second.attributes().map_or(Permissions::NONE, |it| it.permissions);
    let Entry { level, own_log2, start: intermediate, .. } = *second;
    let half = Second { level, own_log2, permissions, intermediate };
    Entry { tag, is_combined: true, second: Some(half), space, ..*second }
}
