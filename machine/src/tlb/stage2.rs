//! What stage 2 says of some intermediate addresses, walked or stale. Every step of a stage-1 walk asks for that, and between
//! two changes of stage 2 the answer is the same. What stage 1 and stage 2 make together is joined from both when asked.

use alloc::sync::Arc;

use super::entry::SpaceId;
use super::found::{Found, Route};
use super::may::May;
use super::question::{Only, Question, Through};
use super::remembered::{Answer, FaultBeneath, Leaf, Way};
use crate::context::Tag;

impl May {
    /// Stage 2's answers to the part of `question` that is about intermediate addresses `first..=last`.
    pub(crate) fn answers(&self, beneath: SpaceId, first: u64, last: u64, question: &Question) -> Arc<Answer> {
        let tag = self.space(beneath).space.tag();
        let through = question.through;
        let is_naive = question.is_naive || self.effort.is_free();
        if is_naive || through.is_some_and(|it| self.is_through_stage2(tag, &it, first, last)) {
            return Arc::new(self.ask(tag, first, last, through));
        }
        let key = (tag.vmid, first >> 12, last >> 12);
        let answer = self.remembered.answer(key, || self.ask(tag, first, last, None));
        #[cfg(debug_assertions)]
        assert!(
            *answer == self.effort.free(|| self.ask(tag, first, last, None)),
            "what is known of pages {key:x?} is true"
        );
        answer
    }

    /// False when no walk of stage 2 for `first..=last` can pass the thing.
    pub(super) fn is_through_stage2(&self, tag: Tag, through: &Through, first: u64, last: u64) -> bool {
        match through {
            Through::Record(record) => {
                let (from, to) = (record.start.min(record.own_start), record.last().max(record.own_last()));
                record.tag == tag && from <= last && to >= first
            }
            Through::Word(word, _) => self.may_decide(*word, tag, first, last),
        }
    }

    fn ask(&self, tag: Tag, first: u64, last: u64, through: Option<Through>) -> Answer {
        let mut answer = Answer::default();
        let is_page = first >> 12 == last >> 12;
        let only = Some(Only::Leaves);
        let question = Question { through, wants_faults: is_page, only, ..Question::about(first, last) };
        self.each_seen(tag, &question, &mut |seen, holders| {
            let walkers = holders.cpus();
            match seen.found {
                Found::Fault { kind, level, is_old, .. } => {
                    let word = seen.word;
                    answer.add_fault(FaultBeneath { kind, level, word, walkers, is_old, is_of_walks: false });
                }
                Found::Entry { entry, .. } if entry.is_table() => {}
                Found::Entry { entry, is_untranslated } => {
                    let Route { is_current, is_through, .. } = *seen.route;
                    let way = Way { page: entry.output_at(first) & !0xfff, walkers, is_current, is_through };
                    answer.add(Leaf { entry, is_untranslated, way }, seen.word, is_page);
                }
            }
        });
        answer
    }
}
