//! V3 of memory: that programs give away what an entry still leads to. A leaf that every walk finds by what is written now
//! is no finding: the linear map has one for every frame. An entry that only a TLB holds is, and one that a walk finds only
//! by a table entry that a TLB holds, or by a value that was stored over; and for a table any link.

use alloc::vec::Vec;

use super::Machine;
use crate::attributes::Permissions;
use crate::event::Owned;
use crate::tlb::entry::Entry;
use crate::tlb::found::{Found, Seen};
use crate::tlb::holders::Held;
use crate::tlb::holders::{GLOBAL, Holders};
use crate::tlb::question::Question;

/// Memory that is given away.
#[derive(Clone, Copy)]
pub(super) struct Freed {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) owned: Owned,
}

impl Freed {
    /// True when `entry` must not be there any more. To memory of tables leaves may lead: the linear map's do.
    fn is_referred_to(&self, entry: &Entry) -> bool {
        (self.owned == Owned::Frame || entry.is_table()) && entry.leads_to(self.first, self.last)
    }
}

impl Machine {
    /// A leaf that is linked still when its frame is given away is a finding too.
    pub fn be_strict(&mut self) {
        self.is_strict = true;
    }

    /// Physical memory gets another owner.
    pub fn release(&mut self, cpu: u8, address: u64, size_bytes: u64, owned: Owned) {
        self.event += 1;
        let freed = Freed { first: address, last: address + (size_bytes - 1), owned };
        let stale = self.may.stale.leading_to(freed.first, freed.last);
        let stale = stale.filter(|(entry, _)| freed.is_referred_to(entry));
        let mut stale: Vec<Held> = stale.map(|(entry, it)| (*entry, it.holders.clone())).collect();
        stale.sort_unstable_by_key(|it| it.0);
        #[cfg(debug_assertions)]
        let is_held = !stale.is_empty();
        let stale = stale.into_iter().find(|(entry, holders)| !self.is_still_so(entry, holders, &freed));
        let kept = stale.or_else(|| {
            let reference = self.walked_reference(&freed);
            // The naive way does not tell walks from what is held.
            #[cfg(debug_assertions)]
            assert!(
                is_held || self.leaves_nothing_out(&freed, reference.as_ref()),
                "whatever leads to {address:#x} is found"
            );
            reference
        });
        let kept = kept.or_else(|| if owned == Owned::Table { self.link_to(&freed) } else { None });
        if let Some((entry, holders)) = kept {
            self.report_reuse(cpu, address, Some(entry), &holders);
        } else if owned == Owned::Table && self.is_live_root(&freed) {
            self.report_reuse(cpu, address, None, &Holders::of(GLOBAL, self.all_cpus()));
        } else if owned == Owned::Table {
            (freed.first >> 12..=freed.last >> 12).for_each(|page| self.may.forget_table(page << 12));
        }
    }

    /// Whether walks find by what is written now all that `entry` says of the memory, and permit as much: a leaf that was split or folded
    /// in place, as BBM level 2 permits, stays in TLBs beside what took its place, and does no harm.
    fn is_still_so(&self, entry: &Entry, holders: &Holders, freed: &Freed) -> bool {
        let Some(old) = entry.attributes() else { return false };
        let (_, output) = entry.output_span();
        let last = freed.last.min(output + (entry.last() - entry.start));
        (freed.first.max(output)..=last).step_by(0x1000).all(|physical| {
            let address = entry.start + (physical - output);
            let question = Question { near: Some(entry.space), ..Question::about(address, address) };
            let mut left = holders.clone();
            self.may.each_reached(entry.tag, &question, &mut |seen, who| {
                if let Found::Entry { entry: new, is_untranslated: false } = seen.found
                    && new.attributes().is_some_and(|it| old.permissions.beyond(it.permissions) == Permissions::NONE)
                    && new.output_at(address) == physical
                    && seen.route.is_current
                {
                    left.subtract(who);
                }
            });
            left.is_empty()
        })
    }

    /// An entry that leads to the memory and that a walk finds, though not by what is written now.
    fn walked_reference(&mut self, freed: &Freed) -> Option<Held> {
        let is_strict = self.is_strict && freed.owned == Owned::Frame;
        if !is_strict && self.may.is_up_to_date() {
            return None;
        }
        let mut found = Vec::new();
        for word in self.may.words_leading_to(freed.first, freed.last) {
            self.walk_by(word, freed, &mut found);
        }
        self.unlinked(&found, is_strict)
    }

    /// Whether the naive way finds as much as [`Self::walked_reference`] did.
    #[cfg(debug_assertions)]
    fn leaves_nothing_out(&self, freed: &Freed, reference: Option<&Held>) -> bool {
        let is_strict = self.is_strict && freed.owned == Owned::Frame;
        let naive = self.may.effort.free(|| self.is_walked_naively(freed, is_strict));
        naive.is_none_or(|naive| naive == reference.is_some())
    }

    /// What walks find at `word` that leads to the memory, and whether by what is written now.
    fn walk_by(&self, word: u64, freed: &Freed, found: &mut Vec<(Held, bool)>) {
        for place in self.may.places_of(word).iter() {
            let tag = self.may.space(place.space).space.tag();
            let question = Question::at(word, place);
            self.may.each_reached(tag, &question, &mut |seen, holders| note(seen, holders, freed, found));
        }
    }

    /// The first of `found` that somebody cannot find by what is written now; or the first at all.
    fn unlinked(&self, found: &[(Held, bool)], is_strict: bool) -> Option<Held> {
        found.iter().filter(|(_, is_linked)| is_strict || !is_linked).find_map(|((entry, holders), _)| {
            let mut holders = holders.clone();
            if !is_strict {
                holders.subtract(&self.linked_for(entry));
            }
            (!holders.is_empty()).then_some((*entry, holders))
        })
    }

    /// Who finds `entry` by what is written now.
    fn linked_for(&self, entry: &Entry) -> Holders {
        let mut linked = Holders::none();
        let question = Question { wants_faults: true, ..Question::of(entry) };
        self.may.each_reached(entry.tag, &question, &mut |seen, holders| {
            if seen.route.is_current && seen.is(entry) {
                linked.merge(holders);
            }
        });
        linked
    }

    /// The same with every table read from end to end; not where they are many.
    #[cfg(debug_assertions)]
    fn is_walked_naively(&self, freed: &Freed, is_strict: bool) -> Option<bool> {
        if self.may.index.places() > 64 {
            return None;
        }
        let mut tags: Vec<_> = self.may.spaces().map(|(_, it)| it.space.tag()).collect();
        tags.sort_unstable();
        tags.dedup();
        let mut found = Vec::new();
        for tag in tags {
            let question = Question { wants_faults: true, ..Question::EVERYWHERE };
            self.may.each_reached(tag, &question.naive(), &mut |seen, holders| note(seen, holders, freed, &mut found));
        }
        Some(self.unlinked(&found, is_strict).is_some())
    }

    /// A table entry that walks still find and that leads to the memory.
    pub(super) fn link_to(&self, freed: &Freed) -> Option<Held> {
        let mut found = Vec::new();
        for (space, base, level) in
            (freed.first >> 12..=freed.last >> 12).flat_map(|it| self.may.table_spaces(it << 12))
        {
            let question = Question { deepest: level - 1, near: Some(space), ..Question::about(base, base) };
            let tag = self.may.space(space).space.tag();
            self.may.each_reached(tag, &question, &mut |seen, holders| note(seen, holders, freed, &mut found));
            if let Some((held, _)) = found.first() {
                return Some(held.clone());
            }
        }
        None
    }

    fn is_live_root(&self, freed: &Freed) -> bool {
        let is_within = |root: u64| root >= freed.first && root <= freed.last;
        self.may
            .spaces()
            .any(|(_, it)| !it.live.is_empty() && is_within(it.space.root()) && !crate::tlb::space::is_flat(&it.space))
    }
}

fn note(seen: &Seen<'_>, holders: &Holders, freed: &Freed, found: &mut Vec<(Held, bool)>) {
    if let Found::Entry { entry, is_untranslated: false } = seen.found
        && freed.is_referred_to(&entry)
    {
        found.push(((entry, holders.clone()), seen.route.is_current));
    }
}
