//! V1, V2, V6 and V11: two entries that must not be in a TLB together. What is compared is not the bits of descriptors
//! but what the entries say for an address that both translate: so a block that becomes a table of equal leaves changes
//! only its size. (DDI 0487, D8.17.1: RWHZWS, RPVTFW, RKFLJB)

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::attributes::{Attributes, Cacheability, MemoryType};
use crate::context::Tag;
use crate::descriptor::VALID;
use crate::finding::{Finding, Missing, Reason, Rule};
use crate::machine::Machine;
use crate::memory::Memory;
use crate::tlb::entry::{Entry, SpaceId, bytes};
use crate::tlb::found::Found;
use crate::tlb::holders::{Cpus, Holders};
use crate::tlb::question::{Question, Through};
use crate::tlb::stale::Origin;

/// One side of a comparison.
pub(super) struct Side {
    pub(super) entry: Entry,
    pub(super) holders: Holders,
    /// Its descriptor, where a walk finds it; `u64::MAX` for what only a TLB holds.
    pub(super) word: u64,
}

/// What two pairs have in common that are one fault: why they must not meet, whose entry the older one is, and what left that behind.
type Fault = (Reason, SpaceId, Option<Origin>);

/// Pairs that are compared one by one.
const FEW: usize = 4096;

/// Why `kept`, which may be cached, and `new`, which a walk may find, must not meet where the lowest BBM level is `bbm`;
/// or `None` if they may.
pub fn compatible(kept: &Entry, new: &Entry, bbm: u8, memory: &Memory) -> Option<Reason> {
    let (Some(old), Some(now)) = (kept.attributes(), new.attributes()) else {
        return table_and_leaf(kept, new, bbm);
    };
    let first = kept.start.max(new.start);
    let last = kept.last().min(new.last());
    let (from, to) = (kept.output_at(first), new.output_at(first));
    if from != to && (old.may_write() || now.may_write() || !memory.is_same(from, to, last - first + 1)) {
        return Some(Reason::OutputAddress);
    }
    if effective(old) != effective(now) {
        return Some(Reason::MemoryType);
    }
    if now.is_global && !old.is_global {
        return Some(Reason::Global);
    }
    if kept.own_log2 != new.own_log2 || kept.stage2_log2() != new.stage2_log2() && kept.size_log2 != new.size_log2 {
        return (bbm < 2).then_some(Reason::Size);
    }
    let is_same_set = old.is_contiguous == now.is_contiguous && kept.size_log2 == new.size_log2;
    (!is_same_set && bbm == 0).then_some(Reason::Contiguous)
}

/// A table entry and a leaf differ in size if the table is at the leaf's place or below it; two tables are compared by
/// the leaves that can be reached through them.
fn table_and_leaf(kept: &Entry, new: &Entry, bbm: u8) -> Option<Reason> {
    let (table, leaf) = match (kept.is_table(), new.is_table()) {
        (true, false) => (kept, new),
        (false, true) => (new, kept),
        _ => return None,
    };
    (table.own_log2 <= leaf.own_log2 && bbm < 2).then_some(Reason::Size)
}

/// Type and shareability as they act: shareability has no meaning for what is not cached.
fn effective(attributes: &Attributes) -> (MemoryType, Option<u8>) {
    let is_cached = match attributes.memory {
        MemoryType::Device(_) => false,
        MemoryType::Normal { inner, outer } => {
            inner != Cacheability::NonCacheable || outer != Cacheability::NonCacheable
        }
    };
    (attributes.memory, is_cached.then_some(attributes.shareability))
}

impl Machine {
    /// `cpu` stored `value` over `old` at the descriptor `word`.
    pub(crate) fn check_store(&mut self, cpu: u8, word: u64, old: u64, value: u64) {
        if value & VALID == 0 {
            return;
        }
        // Straight from one valid descriptor to another, with no break in between.
        let replaced = (old & VALID != 0).then_some(word);
        for place in self.may().places_of(word).iter() {
            let tag = self.may().space(place.space).space.tag();
            let question = Question {
                through: Some(Through::Word(word, value)),
                near: Some(place.space),
                ..Question::about(place.start, place.last)
            };
            // Most stores meet nothing at all, and then what a new table leads to need not be looked at.
            let (mut new, mut others) = self.sides(tag, &Question { deepest: place.level, ..question });
            if others.is_empty() {
                continue;
            }
            if place.level < question.deepest {
                (new, others) = self.sides(tag, &question);
            }
            if let Some(mut finding) = self.first_conflict(cpu, &new, &others, replaced) {
                finding.store = Some((word, old, value));
                self.report(finding);
                return;
            }
        }
        self.check_combined(cpu, word, old, value);
    }

    /// `come` may from now on walk `space`: what they kept from elsewhere, or from before, must not meet it. CPUs that walked it before,
    /// with another ASID, `were` there: what is global has met all that it can on these.
    pub(crate) fn check_entered(&mut self, cpu: u8, space: SpaceId, come: &Holders, were: Cpus) {
        let has_newcomer = come.cpus() & !were != 0;
        let state = self.may().space(space);
        let (tag, (first, last)) = (state.space.tag(), state.space.bounds());
        let has_global = has_newcomer && state.has_global;
        let meets = |it: &Holders| it.meets(come) != 0 || has_global && it.cpus() & come.cpus() != 0;
        let stale: Vec<(Entry, Origin)> = self
            .may()
            .stale
            .overlapping(tag, first, last)
            .filter(|(entry, record)| (has_newcomer || !entry.is_global()) && meets(&record.holders))
            .map(|(entry, record)| (*entry, record.origin))
            .collect();
        // None of this is compared again: what is told must not hide what else is there.
        let mut told = Vec::new();
        for (entry, origin) in stale {
            // The entry, and of a table what walks go on to from there.
            let through = Some(Through::Record(entry));
            let question = Question { through, near: Some(space), ..Question::about(entry.start, entry.last()) };
            let (kept, mut new) = self.sides(tag, &question);
            new.retain(|it| it.word != u64::MAX && it.entry.space == space);
            new.iter_mut().for_each(|it| it.holders.restrict(come.cpus()));
            self.report_conflicts(cpu, &new, &kept, Some(origin), &mut told);
        }
        // Often the others are empty: then this page table, which may be large, need not be walked.
        let others = self.may().spaces().map(|(id, _)| id).filter(|id| self.is_met(*id, space, come, has_newcomer));
        let elsewhere = others.flat_map(|id| self.entries_of(id, first, last));
        let elsewhere: Vec<Side> = elsewhere.filter(|it| it.word != u64::MAX).collect();
        let Some(first) = elsewhere.iter().map(|it| it.entry.start).min() else { return };
        let last = elsewhere.iter().map(|it| it.entry.last()).max().unwrap_or(first);
        // Who was there before has met them already, the other way round.
        let mut new = self.entries_of(space, first, last);
        new.iter_mut().for_each(|it| it.holders.restrict(come.cpus()));
        self.report_conflicts(cpu, &new, &elsewhere, None, &mut told);
    }

    /// Reports what meets and must not, but nothing that is `told`.
    fn report_conflicts(
        &mut self,
        cpu: u8,
        new: &[Side],
        others: &[Side],
        origin: Option<Origin>,
        told: &mut Vec<Fault>,
    ) {
        let mut found = Vec::new();
        let _ = self.each_pair(new, others, &mut |new, kept| {
            let (cpus, reason) = self.meeting(new, kept)?;
            let fault = (reason, kept.entry.space, origin);
            if !told.contains(&fault) {
                told.push(fault);
                found.push(self.conflict(cpu, new, kept, cpus, reason, None));
            }
            None::<()>
        });
        found.into_iter().for_each(|finding| self.report(finding));
    }

    /// Whether `come` to `space` may meet what is in `other`, and have not met it before: by its ASID, or where it is global.
    fn is_met(&self, other: SpaceId, space: SpaceId, come: &Holders, has_newcomer: bool) -> bool {
        let (its, own) = (self.may().space(other), self.may().space(space));
        let is_shared = |asid| its.live.exactly(asid) | its.kept.holders.exactly(asid) != 0;
        let has_common = own.has_global || its.has_global || !own.space.has_asid();
        other != space
            && its.space.tag() == own.space.tag()
            && self.may().is_alike(other, space)
            && (has_newcomer && has_common || come.iter().any(|(asid, _)| is_shared(asid)))
    }

    /// What may be found at `first..=last` in `space`.
    fn entries_of(&self, space: SpaceId, first: u64, last: u64) -> Vec<Side> {
        let question = Question { within: Some(space), ..Question::about(first, last) };
        let (mut found, mut others) = self.sides(self.may().space(space).space.tag(), &question);
        found.append(&mut others);
        found.retain(|it| it.entry.space == space);
        found
    }

    /// What is found through the question's word, and what is found otherwise.
    fn sides(&self, tag: Tag, question: &Question) -> (Vec<Side>, Vec<Side>) {
        let (mut through, mut others): (Vec<Side>, Vec<Side>) = (Vec::new(), Vec::new());
        self.may().each_seen(tag, question, &mut |seen, holders| {
            let Found::Entry { entry, is_untranslated: false, .. } = seen.found else { return };
            // Table entries on the way to the word are common to both sides.
            if entry.is_table() && entry.own_last() > question.last {
                return;
            }
            let sides = if seen.route.is_through { &mut through } else { &mut others };
            sides.push(Side { entry, holders: holders.clone(), word: seen.word });
        });
        (through, others)
    }

    pub(super) fn first_conflict(
        &self,
        cpu: u8,
        new: &[Side],
        others: &[Side],
        replaced: Option<u64>,
    ) -> Option<Finding> {
        self.each_pair(new, others, &mut |new, kept| {
            let (cpus, reason) = self.meeting(new, kept)?;
            Some(self.conflict(cpu, new, kept, cpus, reason, replaced))
        })
    }

    /// What `look` says first of a pair that may meet.
    fn each_pair<T>(
        &self,
        new: &[Side],
        others: &[Side],
        look: &mut dyn FnMut(&Side, &Side) -> Option<T>,
    ) -> Option<T> {
        if new.len().saturating_mul(others.len()) <= FEW {
            return others.iter().find_map(|kept| new.iter().find_map(|new| look(new, kept)));
        }
        // Whole page tables: each side is compared with those alone that lie where it does.
        let mut sizes: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        (0..new.len()).for_each(|at| sizes.entry(new[at].entry.size_log2).or_default().push(at));
        sizes.values_mut().for_each(|sides| sides.sort_by_key(|at| new[*at].entry.start));
        others.iter().find_map(|kept| {
            let mut near: Vec<usize> = Vec::new();
            for (log2, sides) in &sizes {
                let before = kept.entry.start.saturating_sub(bytes(*log2) - 1);
                let first = sides.partition_point(|at| new[*at].entry.start < before);
                near.extend(sides[first..].iter().take_while(|at| new[**at].entry.start <= kept.entry.last()));
            }
            near.sort_unstable();
            near.into_iter().find_map(|at| look(&new[at], kept))
        })
    }

    /// Where, and why not, `new` and `kept` must meet, if they do.
    fn meeting(&self, new: &Side, kept: &Side) -> Option<(Cpus, Reason)> {
        self.may().effort.spend();
        let do_overlap = new.entry.overlaps(kept.entry.start, kept.entry.last())
            && kept.entry.overlaps(new.entry.start, new.entry.last())
            && self.may().is_alike(new.entry.space, kept.entry.space);
        let cpus = if do_overlap { new.holders.meets(&kept.holders) } else { 0 };
        if cpus == 0 {
            return None;
        }
        let reason = compatible(&kept.entry, &new.entry, self.bbm(cpus), &self.may().memory);
        let input_bits = |side: &Side| self.may().space(side.entry.space).space.geometry().input_bits;
        let is_resized = || (input_bits(new) != input_bits(kept)).then_some(Reason::InputSize);
        Some((cpus, reason.or_else(is_resized)?))
    }

    fn conflict(&self, cpu: u8, new: &Side, kept: &Side, cpus: Cpus, reason: Reason, replaced: Option<u64>) -> Finding {
        let is_direct = replaced == Some(kept.word);
        let is_set = new.entry.attributes().is_some_and(|it| it.is_contiguous)
            || kept.entry.attributes().is_some_and(|it| it.is_contiguous);
        let is_same_set = is_set && new.entry.own_log2 == kept.entry.own_log2 && new.word != kept.word;
        let rule = match reason {
            Reason::Size if self.bbm(cpus) == 1 => Rule::NoTranslation,
            Reason::Contiguous => Rule::Contiguous,
            _ if is_same_set && kept.word != u64::MAX => Rule::Contiguous,
            _ if is_direct => Rule::BreakExpected,
            _ => Rule::Overlap,
        };
        let address = kept.entry.start.max(new.entry.start);
        let mut finding = Finding::new(rule, self.events(), cpu, address);
        finding.cached = Some(kept.entry);
        finding.other = Some(new.entry);
        finding.cpus = cpus;
        finding.reason = Some(reason);
        if is_direct || replaced.is_some_and(|word| self.is_just_replaced(word, kept)) {
            finding.missing = Missing::Break;
        } else {
            self.explain(&mut finding);
        }
        finding
    }

    /// True when walks come to `kept` by what was stored over in `word` just now.
    fn is_just_replaced(&self, word: u64, kept: &Side) -> bool {
        self.may().visible.old(word).last().is_some_and(|old| {
            let through = Some(Through::Word(word, old.value));
            let mut is_found = false;
            self.may().each_reached(
                kept.entry.tag,
                &Question { through, ..Question::of(&kept.entry) },
                &mut |seen, _| is_found |= seen.route.is_through,
            );
            is_found
        })
    }
}
