//! Stage 2's leaves for some intermediate addresses, walked or kept. Every step of a stage-1 walk asks for them, and
//! between two changes of stage 2 the answer is the same: it is kept until something that it came from changes.
//! What stage 1 and stage 2 make together is never stored: it is joined from both when asked.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use super::entry::{Entry, SpaceId};
use super::holders::Cpus;
use super::may::{May, Space};
use super::reach::{Found, Question, Through};
use crate::attributes::Permissions;
use crate::context::{Regime, Tag};
use crate::syndrome::FaultKind;

/// One of stage 2's answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) entry: Entry,
    pub(crate) is_untranslated: bool,
    /// Whose walkers may get it; stage 2 has no ASIDs.
    pub(crate) walkers: Cpus,
    pub(crate) is_current: bool,
    pub(crate) is_through: bool,
}

/// A fault that stage 2 may answer with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FaultBeneath {
    pub(crate) kind: FaultKind,
    pub(crate) level: i8,
    /// Physical address of the descriptor.
    pub(crate) word: u64,
    pub(crate) walkers: Cpus,
    /// A leaf that walks may not read through; accesses have permissions of their own.
    pub(crate) is_of_walks: bool,
}

/// What is known of each intermediate page of each VMID.
type Pages<T> = BTreeMap<(u16, u64), Arc<[T]>>;

/// Answers that are known. A clone knows none, so that snapshots stay small.
#[derive(Debug, Default)]
pub(crate) struct Answers(RefCell<Known>);

#[derive(Debug, Default)]
struct Known {
    plain: Pages<Answer>,
    faults: Pages<FaultBeneath>,
    /// Answers to questions about one thing that walks of stage 2 may pass.
    about: Option<(Through, Pages<Answer>)>,
}

/// More pages than this are not kept.
const MOST_PAGES: usize = 1 << 14;

impl Clone for Answers {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Known {
    fn pages(&mut self, through: Option<Through>) -> &mut Pages<Answer> {
        let Some(through) = through else { return &mut self.plain };
        if self.about.as_ref().is_none_or(|(known, _)| *known != through) {
            self.about = None;
        }
        &mut self.about.get_or_insert_with(|| (through, Pages::new())).1
    }
}

impl Answers {
    /// Stage 2 of `vmid` may answer differently for `first..=last`.
    pub(crate) fn forget(&mut self, vmid: u16, first: u64, last: u64) {
        let known = self.0.get_mut();
        known.about = None;
        forget(&mut known.plain, vmid, first, last);
        forget(&mut known.faults, vmid, first, last);
    }
}

fn forget<T>(pages: &mut Pages<T>, vmid: u16, first: u64, last: u64) {
    while let Some((&key, _)) = pages.range((vmid, first >> 12)..=(vmid, last >> 12)).next() {
        pages.remove(&key);
    }
}

fn learn<T>(pages: &mut Pages<T>, key: (u16, u64), found: &Arc<[T]>) {
    if pages.len() >= MOST_PAGES {
        pages.clear();
    }
    pages.insert(key, found.clone());
}

impl May {
    /// Stage 2's leaves for intermediate addresses `first..=last`.
    pub(crate) fn answers(&self, beneath: SpaceId, first: u64, last: u64, through: Option<Through>) -> Arc<[Answer]> {
        let tag = self.space(beneath).space.tag();
        let through = through.filter(|it| self.is_through_stage2(tag, it, first, last));
        if first >> 12 != last >> 12 {
            return self.ask(tag, first, last, through).into();
        }
        let key = (tag.vmid, first >> 12);
        let known = self.answers.0.borrow_mut().pages(through).get(&key).cloned();
        if let Some(known) = known {
            debug_assert!(*known == *self.ask(tag, first, last, through), "what is known of {first:#x} is true");
            return known;
        }
        let answers: Arc<[Answer]> = self.ask(tag, first & !0xfff, last | 0xfff, through).into();
        learn(self.answers.0.borrow_mut().pages(through), key, &answers);
        answers
    }

    /// How stage 2 may fault at intermediate `address`.
    pub(crate) fn faults(&self, beneath: SpaceId, address: u64) -> Arc<[FaultBeneath]> {
        let tag = self.space(beneath).space.tag();
        let key = (tag.vmid, address >> 12);
        let known = self.answers.0.borrow().faults.get(&key).cloned();
        if let Some(known) = known {
            debug_assert!(*known == *self.ask_faults(tag, address), "what is known of {address:#x} is true");
            return known;
        }
        let faults: Arc<[FaultBeneath]> = self.ask_faults(tag, address).into();
        learn(&mut self.answers.0.borrow_mut().faults, key, &faults);
        faults
    }

    fn ask_faults(&self, tag: Tag, address: u64) -> Vec<FaultBeneath> {
        let mut faults: Vec<FaultBeneath> = Vec::new();
        let question = Question { wants_faults: true, ..Question::about(address, address) };
        self.each_seen(tag, &question, &mut |seen, holders| {
            let (kind, level, is_of_walks) = match seen.found {
                Found::Fault { kind, level, .. } => (kind, level, false),
                Found::Entry { entry, .. } => match entry.attributes() {
                    Some(it) if !it.permissions.has(Permissions::READ) => (FaultKind::Permission, entry.level, true),
                    _ => return,
                },
            };
            let fault = FaultBeneath { kind, level, word: seen.word, walkers: holders.cpus(), is_of_walks };
            match faults.iter_mut().find(|it| FaultBeneath { walkers: fault.walkers, ..**it } == fault) {
                Some(known) => known.walkers |= fault.walkers,
                None => faults.push(fault),
            }
        });
        faults
    }

    /// False when no walk of stage 2 for `first..=last` can pass the thing.
    fn is_through_stage2(&self, tag: Tag, through: &Through, first: u64, last: u64) -> bool {
        match through {
            Through::Record(record) => {
                let (from, to) = (record.start.min(record.own_start), record.last().max(record.own_last()));
                record.tag == tag && from <= last && to >= first
            }
            Through::Word(word, _) => self.index.uses(*word).iter().any(|it| self.space(it.space).space.tag() == tag),
        }
    }

    fn ask(&self, tag: Tag, first: u64, last: u64, through: Option<Through>) -> Vec<Answer> {
        let mut answers: Vec<Answer> = Vec::new();
        let question = Question { through, ..Question::about(first, last) };
        self.each_seen(tag, &question, &mut |seen, holders| {
            let Found::Entry { entry, is_untranslated, .. } = seen.found else { return };
            if entry.is_table() {
                return;
            }
            let (is_current, is_through) = (seen.route.is_current, seen.route.is_through);
            let answer = Answer { entry, is_untranslated, walkers: holders.cpus(), is_current, is_through };
            let is_same = |it: &&mut Answer| Answer { walkers: answer.walkers, ..**it } == answer;
            // In more than one page there is too much to look for.
            let is_page = first >> 12 == last >> 12;
            match answers.iter_mut().filter(|_| is_page).find(is_same) {
                Some(known) => known.walkers |= answer.walkers,
                None => answers.push(answer),
            }
        });
        answers
    }

    /// A word of a stage-2 table changed, or who may see what of it.
    pub(crate) fn forget_answers_of_word(&mut self, word: u64) {
        for place in self.places_of(word) {
            if let Space::Two(stage2) = &self.space(place.space).space {
                let (vmid, geometry) = (stage2.vmid, stage2.geometry);
                // Each member of a contiguous set may answer for every other.
                let set = geometry.contiguous_log2(place.level).unwrap_or(0) + geometry.slot_shift(place.level);
                self.answers.forget(vmid, place.start >> set << set, place.last | ((1 << set) - 1));
            }
        }
    }

    /// Who may hold `entry` changed.
    pub(crate) fn forget_answers_of_entry(&mut self, entry: &Entry) {
        if entry.tag.regime == Regime::Stage2 {
            let (first, last) = (entry.start.min(entry.own_start), entry.last().max(entry.own_last()));
            self.answers.forget(entry.tag.vmid, first, last);
        }
    }

    /// Who may walk the page table changed.
    pub(crate) fn forget_answers_of_space(&mut self, space: SpaceId) {
        if let Space::Two(stage2) = &self.space(space).space {
            let vmid = stage2.vmid;
            self.answers.forget(vmid, 0, u64::MAX);
        }
    }
}
