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
use super::question::{Only, Question, Through};
use super::reach::{Found, Route};
use crate::attributes::Permissions;
use crate::context::{Regime, Tag};
use crate::descriptor::CONTIGUOUS;
use crate::syndrome::FaultKind;

/// One way through stage 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// Where it leads: the physical page of the first intermediate address.
    pub(crate) page: u64,
    /// Whose walkers may take it; stage 2 has no ASIDs.
    pub(crate) walkers: Cpus,
    pub(crate) is_current: bool,
    pub(crate) is_through: bool,
}

/// One of stage 2's answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub(crate) entry: Entry,
    pub(crate) is_untranslated: bool,
    pub(crate) way: Way,
}

/// All of stage 2's answers for some addresses.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) leaves: Vec<Leaf>,
    /// The ways that walks of stage 1 may take to a table there: those that differ in their walkers alone are one.
    ways: Vec<Way>,
    /// The same for who does not ask what is current.
    ways_by_place: Vec<Way>,
    /// How it may fault instead; for a single page only.
    pub(crate) faults: Vec<FaultBeneath>,
}

impl Answer {
    fn add(&mut self, leaf: Leaf, word: u64, is_page: bool) {
        let is_same = |it: &&mut Leaf| {
            let walkers = leaf.way.walkers;
            it.is_untranslated == leaf.is_untranslated
                && Way { walkers, ..it.way } == leaf.way
                && it.entry == leaf.entry
        };
        // In more than one page there is too much to look for.
        match self.leaves.iter_mut().filter(|_| is_page).find(is_same) {
            Some(known) => known.way.walkers |= leaf.way.walkers,
            None => self.leaves.push(leaf),
        }
        if !is_page {
            return;
        }
        if leaf.entry.attributes().is_some_and(|it| it.permissions.has(Permissions::READ)) {
            merge(&mut self.ways, leaf.way);
            merge(&mut self.ways_by_place, Way { is_current: true, ..leaf.way });
        } else {
            let (kind, level, walkers) = (FaultKind::Permission, leaf.entry.level, leaf.way.walkers);
            self.add_fault(FaultBeneath { kind, level, word, walkers, is_old: false, is_of_walks: true });
        }
    }

    fn add_fault(&mut self, fault: FaultBeneath) {
        match self.faults.iter_mut().find(|it| FaultBeneath { walkers: fault.walkers, ..**it } == fault) {
            Some(known) => known.walkers |= fault.walkers,
            None => self.faults.push(fault),
        }
    }

    pub(crate) fn ways(&self, is_current_asked: bool) -> &[Way] {
        if is_current_asked { &self.ways } else { &self.ways_by_place }
    }
}

fn merge(ways: &mut Vec<Way>, way: Way) {
    match ways.iter_mut().find(|it| Way { walkers: way.walkers, ..**it } == way) {
        Some(known) => known.walkers |= way.walkers,
        None => ways.push(way),
    }
}

/// A fault that stage 2 may answer with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FaultBeneath {
    pub(crate) kind: FaultKind,
    pub(crate) level: i8,
    /// Physical address of the descriptor.
    pub(crate) word: u64,
    pub(crate) walkers: Cpus,
    /// It comes from an old value of that descriptor.
    pub(crate) is_old: bool,
    /// A leaf that walks may not read through; accesses have permissions of their own.
    pub(crate) is_of_walks: bool,
}

/// VMID, first and last page.
type Key = (u16, u64, u64);

/// A single page: the VMID above its number.
const fn page_key(vmid: u16, page: u64) -> u64 {
    const MOST: u64 = (1 << 48) - 1;
    (vmid as u64) << 48 | if page < MOST { page } else { MOST }
}

/// What is known, by addresses: of single pages, and of longer ranges, which are few.
#[derive(Debug)]
struct Known<T> {
    pages: BTreeMap<u64, Arc<T>>,
    ranges: BTreeMap<Key, Arc<T>>,
}

/// More than this is not kept.
const MOST_PAGES: usize = 1 << 14;
const MOST_RANGES: usize = 1 << 6;

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self { pages: BTreeMap::new(), ranges: BTreeMap::new() }
    }
}

impl<T> Known<T> {
    fn get(&self, key: Key) -> Option<Arc<T>> {
        if key.1 == key.2 { self.pages.get(&page_key(key.0, key.1)) } else { self.ranges.get(&key) }.cloned()
    }

    fn learn(&mut self, key: Key, found: &Arc<T>) {
        if key.1 == key.2 {
            if self.pages.len() >= MOST_PAGES {
                self.pages.clear();
            }
            self.pages.insert(page_key(key.0, key.1), found.clone());
        } else {
            if self.ranges.len() >= MOST_RANGES {
                self.ranges.clear();
            }
            self.ranges.insert(key, found.clone());
        }
    }

    fn forget(&mut self, vmid: u16, first: u64, last: u64) {
        let overlaps = |key: &Key| key.0 == vmid && key.1 <= last && key.2 >= first;
        self.ranges.retain(|key, _| !overlaps(key));
        while let Some((&key, _)) = self.pages.range(page_key(vmid, first)..=page_key(vmid, last)).next() {
            self.pages.remove(&key);
        }
    }
}

/// Answers that are known. A clone knows none, so that snapshots stay small.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    plain: RefCell<Known<Answer>>,
    /// Answers to questions about one thing that walks of stage 2 may pass.
    about: RefCell<Option<(Through, Known<Answer>)>>,
}

impl Clone for Answers {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Answers {
    /// Stage 2 of `vmid` may answer differently for `first..=last`.
    fn forget(&mut self, vmid: u16, first: u64, last: u64) {
        *self.about.get_mut() = None;
        self.plain.get_mut().forget(vmid, first >> 12, last >> 12);
    }

    fn known(&self, key: Key, through: Option<Through>) -> Option<Arc<Answer>> {
        let Some(through) = through else { return self.plain.borrow().get(key) };
        let about = self.about.borrow();
        about.as_ref().filter(|(thing, _)| *thing == through).and_then(|(_, known)| known.get(key))
    }

    fn learn(&self, key: Key, through: Option<Through>, answer: &Arc<Answer>) {
        let Some(through) = through else { return self.plain.borrow_mut().learn(key, answer) };
        let mut about = self.about.borrow_mut();
        if about.as_ref().is_none_or(|(thing, _)| *thing != through) {
            *about = None;
        }
        about.get_or_insert_with(|| (through, Known::default())).1.learn(key, answer);
    }
}

impl May {
    /// Stage 2's answers to the part of `question` that is about intermediate addresses `first..=last`.
    pub(crate) fn answers(&self, beneath: SpaceId, first: u64, last: u64, question: &Question) -> Arc<Answer> {
        let tag = self.space(beneath).space.tag();
        if question.is_naive {
            return Arc::new(self.ask_naively(tag, first, last, question.through));
        }
        let through = question.through;
        let through = through.filter(|it| self.is_through_stage2(tag, it, first, last));
        let key = (tag.vmid, first >> 12, last >> 12);
        if let Some(known) = self.answers.known(key, through) {
            debug_assert!(*known == self.ask(tag, first, last, through), "what is known of {first:#x} is true");
            return known;
        }
        let answer = Arc::new(self.ask(tag, first, last, through));
        self.answers.learn(key, through, &answer);
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
                Found::Fault { kind, level, .. } => {
                    let (word, is_old) = (seen.word, seen.is_old);
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

    /// Without merging any ways; faults are nobody's question here.
    fn ask_naively(&self, tag: Tag, first: u64, last: u64, through: Option<Through>) -> Answer {
        let mut answer = Answer::default();
        self.each_seen(tag, &Question { through, ..Question::about(first, last) }, &mut |seen, holders| {
            if let Found::Entry { entry, is_untranslated } = seen.found
                && let Some(attributes) = entry.attributes()
            {
                let Route { is_current, is_through, .. } = *seen.route;
                let (page, walkers) = (entry.output_at(first) & !0xfff, holders.cpus());
                let way = Way { page, walkers, is_current, is_through };
                answer.leaves.push(Leaf { entry, is_untranslated, way });
                if attributes.permissions.has(Permissions::READ) {
                    answer.ways.push(way);
                    answer.ways_by_place.push(way);
                }
            }
        });
        answer
    }

    /// Stage 2 of `vmid` may answer differently for `first..=last`.
    fn forget_answers(&mut self, vmid: u16, first: u64, last: u64) {
        self.answers.forget(vmid, first, last);
        self.paths.forget_beneath(first >> 12, last >> 12);
    }

    /// A word of a stage-2 table changed, or who may see which of `values` there.
    pub(crate) fn forget_answers_of_word(&mut self, word: u64, values: &[u64]) {
        let places = self.places_of(word);
        self.forget_paths_of_word(&places);
        // Each member of a contiguous set may answer for every other.
        let is_in_set = values.iter().any(|value| value & CONTIGUOUS != 0);
        for place in places.iter() {
            if let Space::Two(stage2) = &self.space(place.space).space {
                let (vmid, geometry) = (stage2.vmid, stage2.geometry);
                if !is_in_set {
                    self.forget_answers(vmid, place.start, place.last);
                    continue;
                }
                let set = geometry.contiguous_log2(place.level).unwrap_or(0) + geometry.slot_shift(place.level);
                self.forget_answers(vmid, place.start >> set << set, place.last | ((1 << set) - 1));
            }
        }
    }

    /// Who may hold `entry` changed.
    pub(crate) fn forget_answers_of_entry(&mut self, entry: &Entry) {
        if entry.tag.regime == Regime::Stage2 {
            let (first, last) = (entry.start.min(entry.own_start), entry.last().max(entry.own_last()));
            self.forget_answers(entry.tag.vmid, first, last);
        }
    }

    /// Who may walk the page table changed.
    pub(crate) fn forget_answers_of_space(&mut self, space: SpaceId) {
        if let Space::Two(stage2) = &self.space(space).space {
            let vmid = stage2.vmid;
            self.forget_answers(vmid, 0, u64::MAX);
        }
    }
}
