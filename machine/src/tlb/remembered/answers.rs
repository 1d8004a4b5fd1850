//! Stage 2's leaves for some intermediate addresses, walked or kept. Every step of a stage-1 walk asks for them, and
//! between two changes of stage 2 the answer is the same: it is kept until something that it came from changes.
//! What stage 1 and stage 2 make together is never stored: it is joined from both when asked.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::attributes::Permissions;
use crate::syndrome::FaultKind;
use crate::tlb::entry::Entry;
use crate::tlb::holders::Cpus;

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
    pub(crate) fn add(&mut self, leaf: Leaf, word: u64, is_page: bool) {
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

    pub(crate) fn add_fault(&mut self, fault: FaultBeneath) {
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
pub(crate) type Key = (u16, u64, u64);

/// A single page: the VMID above its number.
const fn page_key(vmid: u16, page: u64) -> u64 {
    const MOST: u64 = (1 << 48) - 1;
    (vmid as u64) << 48 | if page < MOST { page } else { MOST }
}

/// Answers that are known, by addresses: of single pages, and of longer ranges, which are few.
#[derive(Debug, Default)]
struct Known {
    pages: BTreeMap<u64, Arc<Answer>>,
    ranges: BTreeMap<Key, Arc<Answer>>,
}

/// More than this is not kept.
const MOST_PAGES: usize = 1 << 14;
const MOST_RANGES: usize = 1 << 6;

#[derive(Debug, Default)]
pub(crate) struct Answers(RefCell<Known>);

impl Answers {
    pub(super) fn get(&self, key: Key) -> Option<Arc<Answer>> {
        let known = self.0.borrow();
        if key.1 == key.2 { known.pages.get(&page_key(key.0, key.1)) } else { known.ranges.get(&key) }.cloned()
    }

    pub(super) fn learn(&self, key: Key, answer: &Arc<Answer>) {
        let Known { pages, ranges } = &mut *self.0.borrow_mut();
        if key.1 == key.2 {
            if pages.len() >= MOST_PAGES {
                pages.clear();
            }
            pages.insert(page_key(key.0, key.1), answer.clone());
        } else {
            if ranges.len() >= MOST_RANGES {
                ranges.clear();
            }
            ranges.insert(key, answer.clone());
        }
    }

    /// Stage 2 of `vmid` may answer differently for pages `first..=last`.
    pub(super) fn forget(&mut self, vmid: u16, first: u64, last: u64) {
        let Known { pages, ranges } = self.0.get_mut();
        ranges.retain(|key, _| key.0 != vmid || key.1 > last || key.2 < first);
        while let Some((&key, _)) = pages.range(page_key(vmid, first)..=page_key(vmid, last)).next() {
            pages.remove(&key);
        }
    }
}
