//! Entries that no walk can produce any more, but that a TLB may have kept: each lives until a TLBI that matches it has
//! been completed by a DSB of the CPU that issued it, and on that CPU perhaps until a context synchronization event.
//! (DDI 0487, D8.17, RPSMWS, RYNJCP, RBLDZX)

use alloc::collections::btree_map::Range;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::entry::{Entry, bytes};
use super::holders::{Cpus, Holders, punch};
use super::passed::Passed;
use super::question::Question;
use super::sizes::Sizes;
use super::spans::Spans;
use crate::context::{Regime, Tag};
use crate::tlbi::{Miss, Operation, Selector};

/// How an entry came to be stale: for the story of a finding, never for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Event that made it unreachable.
    pub event: u64,
    /// CPU of that event.
    pub cpu: u8,
    /// The word whose value it came from, if a store made it stale.
    pub word: Option<u64>,
}

/// A TLBI that covered the entry's address and yet does not invalidate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// Event of the TLBI.
    pub event: u64,
    /// The TLBI.
    pub operation: Operation,
    /// Why not.
    pub why: Miss,
}

/// What a TLBI, once complete, does to an entry for some holders.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Mark {
    pub(crate) issuer: u8,
    pub(crate) selector: Selector,
    pub(crate) holders: Holders,
    /// Members of the contiguous set to take away; 0 takes the whole entry.
    pub(crate) holes: u128,
    /// The DSB is done; only the issuer's context synchronization event is missing.
    pub(crate) awaits_sync: bool,
    /// Its holders need another such TLBI behind it.
    pub(crate) is_first: bool,
}

/// A stale entry's holders and its pending ends.
#[derive(Clone, Debug)]
pub struct Record {
    /// Who may hold it.
    pub holders: Holders,
    pub(crate) marks: Vec<Mark>,
    pub(crate) passed: Passed,
    /// How it came to be.
    pub origin: Origin,
    /// TLBIs that were not enough.
    pub near: Option<NearMiss>,
}

/// Who lost an entry, and to which TLBI.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) holders: Holders,
    pub(crate) selector: Selector,
    /// The TLBIs before, where it took two.
    pub(crate) first: Vec<Selector>,
}

/// Regime, VMID, size, first address.
type Key = (Regime, u16, u8, u64);

/// Every stale entry, found by the addresses it spans.
#[derive(Clone, Debug, Default)]
pub struct Stale {
    records: BTreeMap<Key, Vec<(Entry, Record)>>,
    sizes: BTreeMap<Tag, Sizes>,
    marked: BTreeMap<u8, BTreeSet<Entry>>,
    /// Where they lead; known once that was asked.
    outputs: Option<Spans<Key>>,
    count: usize,
}

impl Stale {
    /// Number of stale entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when every cached entry can be walked anew.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Every stale entry.
    pub fn iter(&self) -> impl Iterator<Item = &(Entry, Record)> {
        self.records.values().flatten()
    }

    /// Regimes and VMIDs that there are entries of.
    pub(crate) fn tags(&self) -> impl Iterator<Item = Tag> {
        self.sizes.keys().copied()
    }

    /// Entries of `tag` that span an address from `first` to `last`.
    pub fn overlapping(&self, tag: Tag, first: u64, last: u64) -> impl Iterator<Item = &(Entry, Record)> {
        let sizes = self.sizes.get(&tag).map(Sizes::used).unwrap_or_default();
        self.overlapping_of(tag, first, last, sizes)
    }

    /// Entries of `tag`.
    pub(crate) fn of(&self, tag: Tag) -> impl Iterator<Item = &(Entry, Record)> {
        let Question { first, last, .. } = Question::EVERYWHERE;
        self.overlapping(tag, first, last)
    }

    /// Tables of `tag` that span an address from `first` to `last`.
    pub(crate) fn tables(&self, tag: Tag, first: u64, last: u64) -> impl Iterator<Item = &(Entry, Record)> {
        let sizes = self.sizes.get(&tag).filter(|it| it.has_tables());
        self.overlapping_of(tag, first, last, sizes.map(Sizes::used).unwrap_or_default())
            .filter(|(entry, _)| entry.is_table())
    }

    /// True when walks may go on from one of them.
    pub(crate) fn leads_on(&self) -> bool {
        self.sizes.iter().any(|(tag, sizes)| sizes.has_tables() || tag.regime == Regime::Stage2 && sizes.used() != 0)
    }

    /// Entries, by their addresses, that may lead to physical `first..=last`, and perhaps others.
    pub(crate) fn leading_to(&mut self, first: u64, last: u64) -> impl Iterator<Item = &(Entry, Record)> {
        let records = &self.records;
        let outputs = self.outputs.get_or_insert_with(|| {
            let mut outputs = Spans::default();
            for (entry, _) in records.values().flatten() {
                let (log2, first) = entry.output_span();
                outputs.add(log2, first, key(entry));
            }
            outputs
        });
        let keys: BTreeSet<Key> = outputs.covering(first, last).map(|it| it.2).collect();
        keys.into_iter().filter_map(|key| records.get(&key)).flatten()
    }

    fn overlapping_of(&self, tag: Tag, first: u64, last: u64, sizes: u64) -> Overlapping<'_> {
        Overlapping { stale: self, tag, first, last, sizes, range: None, found: [].iter() }
    }

    /// The record of `entry`.
    pub fn get(&self, entry: &Entry) -> Option<&Record> {
        let found = self.records.get(&key(entry))?;
        found.iter().find(|(other, _)| other == entry).map(|(_, record)| record)
    }

    fn get_mut(&mut self, entry: &Entry) -> Option<&mut Record> {
        let found = self.records.get_mut(&key(entry))?;
        found.iter_mut().find(|(other, _)| other == entry).map(|(_, record)| record)
    }

    /// `holders` may have kept `entry`. What they were about to lose of it, they have anew.
    pub(crate) fn add(&mut self, entry: Entry, holders: &Holders, origin: Origin) {
        if holders.is_empty() {
            return;
        }
        if let Some(record) = self.get_mut(&entry) {
            record.holders.merge(holders);
            for mark in &mut record.marks {
                mark.holders.subtract(holders);
            }
            record.marks.retain(|mark| !mark.holders.is_empty());
            record.passed.forget(holders);
            return;
        }
        let at = self.records.entry(key(&entry)).or_default();
        let place = at.partition_point(|(other, _)| *other < entry);
        let (holders, passed) = (holders.clone(), Passed::default());
        // Nearly all have one, and there may be many.
        at.reserve_exact(1);
        at.insert(place, (entry, Record { holders, marks: Vec::new(), passed, origin, near: None }));
        if let Some(outputs) = &mut self.outputs {
            let (log2, first) = entry.output_span();
            outputs.add(log2, first, key(&entry));
        }
        self.sizes.entry(entry.tag).or_default().add(&entry);
        self.count += 1;
    }

    /// A TLBI of `mark.issuer` will take `entry` from `mark.holders`.
    pub(crate) fn mark(&mut self, entry: &Entry, mut mark: Mark) {
        let issuer = mark.issuer;
        if let Some(record) = self.get_mut(entry) {
            // A hole matters only to holders that lose nothing more.
            for other in &record.marks {
                if mark.holes != 0
                    && other.holes == 0
                    && other.selector.scope() == mark.selector.scope()
                    && other.issuer == issuer
                    && (mark.is_first || !other.is_first)
                {
                    mark.holders.subtract(&other.holders);
                }
            }
            if !mark.holders.is_empty() && !record.marks.contains(&mark) {
                record.marks.reserve_exact(1);
                record.marks.push(mark);
                self.marked.entry(issuer).or_default().insert(*entry);
            }
        }
    }

    pub(crate) fn note_near(&mut self, entry: &Entry, near: NearMiss) {
        if let Some(record) = self.get_mut(entry) {
            record.near = Some(near);
        }
    }

    /// Entries that wait for `issuer`.
    pub(crate) fn marked_by(&self, issuer: u8) -> Vec<Entry> {
        self.marked.get(&issuer).map_or_else(Vec::new, |entries| entries.iter().copied().collect())
    }

    fn unmark(&mut self, issuer: u8, entry: &Entry) {
        if let Some(entries) = self.marked.get_mut(&issuer) {
            entries.remove(entry);
        }
    }

    /// True when a mark of `issuer` that `is_done` accepts would take `entry`, or some of it, from somebody.
    pub(crate) fn will_lose(
        &self,
        entry: &Entry,
        issuer: u8,
        is_done: &dyn Fn(&Mark) -> Option<Cpus>,
        keeps: Cpus,
    ) -> bool {
        let Some(record) = self.get(entry) else { return false };
        record.marks.iter().filter(|mark| mark.issuer == issuer && !mark.is_first).any(|mark| {
            let cpus = is_done(mark).unwrap_or(0) & !keeps;
            mark.holders.iter().any(|(asid, held)| held & cpus & record.holders.exactly(asid) != 0)
        })
    }

    /// Applies the marks of `issuer` that `is_done` accepts: those holders lose the entry, or some of it.
    /// `keeps` says which of them need a context synchronization event as well. Returns who lost it, and to which TLBI.
    pub(crate) fn complete(
        &mut self,
        entry: &Entry,
        issuer: u8,
        is_done: &dyn Fn(&Mark) -> Option<Cpus>,
        keeps: Cpus,
    ) -> Vec<Lost> {
        let mut lost = Vec::new();
        let Some(record) = self.get_mut(entry) else {
            self.unmark(issuer, entry);
            return lost;
        };
        let (mut waiting, mut parts, mut passing, origin) = (Vec::new(), Vec::new(), Vec::new(), record.origin);
        // TLBIs of one batch act each by itself: what one takes does not keep another from having taken it too.
        let before = record.holders.clone();
        for mut mark in core::mem::take(&mut record.marks) {
            let done = if mark.issuer == issuer { is_done(&mark) } else { None };
            let Some(cpus) = done else {
                waiting.push(mark);
                continue;
            };
            let mut going = mark.holders.clone();
            going.restrict(cpus & !keeps);
            mark.holders.subtract(&going);
            let mut held = Holders::none();
            for (asid, cpus) in going.iter() {
                held.add(asid, cpus & before.exactly(asid));
            }
            if mark.is_first {
                passing.push((held, mark.holes, mark.selector));
            } else {
                record.holders.subtract(&held);
                punch(&mut parts, &held, if mark.holes == 0 { u128::MAX } else { mark.holes });
                let first = record.passed.selectors(&held);
                lost.push(Lost { holders: held, selector: mark.selector, first });
            }
            if !mark.holders.is_empty() {
                mark.awaits_sync = keeps != 0;
                waiting.push(mark);
            }
        }
        lost.retain(|lost| !lost.holders.is_empty());
        passing.into_iter().for_each(|(holders, holes, selector)| record.passed.note(holders, holes, selector));
        let passed = record.passed.clone();
        let is_waiting = waiting.iter().any(|mark| mark.issuer == issuer);
        record.marks = waiting;
        let is_gone = record.holders.is_empty();
        if !is_waiting || is_gone {
            self.unmark(issuer, entry);
        }
        if is_gone {
            self.remove(entry);
        }
        for (holders, holes) in parts {
            let rest = Entry { holes: entry.holes | holes, ..*entry };
            // Its own member is none of them: a TLBI of that takes the whole entry.
            if holes != u128::MAX {
                self.add(rest, &holders, origin);
                self.pass(&rest, &holders, &passed);
            }
        }
        lost
    }

    /// `entry` is what is left of one that `holders` were passed by for.
    fn pass(&mut self, entry: &Entry, holders: &Holders, passed: &Passed) {
        if let Some(record) = self.get_mut(entry) {
            record.passed.merge(passed, holders);
        }
    }

    fn remove(&mut self, entry: &Entry) {
        let at = self.records.entry(key(entry)).or_default();
        at.retain(|(other, _)| other != entry);
        let (log2, first) = entry.output_span();
        let is_shared = at.iter().any(|(other, _)| other.output_span() == (log2, first));
        if let (Some(outputs), false) = (&mut self.outputs, is_shared) {
            outputs.remove(log2, first, key(entry));
        }
        if at.is_empty() {
            self.records.remove(&key(entry));
        }
        self.count -= 1;
        if let Some(sizes) = self.sizes.get_mut(&entry.tag) {
            sizes.remove(entry);
        }
    }
}

/// See [`Stale::overlapping`].
struct Overlapping<'a> {
    stale: &'a Stale,
    tag: Tag,
    first: u64,
    last: u64,
    /// Sizes that were not looked at yet, as bits.
    sizes: u64,
    range: Option<Range<'a, Key, Vec<(Entry, Record)>>>,
    found: core::slice::Iter<'a, (Entry, Record)>,
}

impl<'a> Iterator for Overlapping<'a> {
    type Item = &'a (Entry, Record);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.found.next() {
                return Some(found);
            }
            if let Some((_, found)) = self.range.as_mut().and_then(Iterator::next) {
                self.found = found.iter();
                continue;
            }
            if self.sizes == 0 {
                return None;
            }
            let size = self.sizes.trailing_zeros() as u8;
            self.sizes &= self.sizes - 1;
            let low = self.first & !(bytes(size) - 1);
            self.range =
                Some(self.stale.records.range(key_of(self.tag, size, low)..=key_of(self.tag, size, self.last)));
        }
    }
}

const fn key(entry: &Entry) -> Key {
    let (start, size) = entry.span();
    key_of(entry.tag, size, start)
}

const fn key_of(tag: Tag, size: u8, start: u64) -> Key {
    (tag.regime, tag.vmid, size, start)
}
