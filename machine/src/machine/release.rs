//! V3 of memory: that programs give away what an entry still leads to. A leaf that every walk finds by what is written now
//! is no finding: the linear map has one for every frame, and for every table. An entry that only a TLB holds is, and one that
//! a walk finds only by a table entry that a TLB holds, or by a value that was stored over; and for a table any link.

use alloc::vec::Vec;

use super::Machine;
use crate::attributes::Permissions;
use crate::event::Owned;
use crate::tlb::entry::Entry;
use crate::tlb::found::{Found, Seen};
use crate::tlb::holders::{Cpus, GLOBAL, Held, Holders};
use crate::tlb::question::Question;
use crate::tlb::space::is_flat;

/// Memory that is given away.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Freed {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Freed {
    pub(super) const fn has(&self, address: u64) -> bool {
        address >= self.first && address <= self.last
    }
}

impl Machine {
    /// A leaf that is linked still when its frame, or the table that it maps as a page, is given away is a finding too.
    pub fn be_strict(&mut self) {
        self.is_strict = true;
    }

    /// Physical memory gets another owner.
    pub fn release(&mut self, cpu: u8, address: u64, size_bytes: u64, owned: Owned) {
        self.event += 1;
        let is_table = owned == Owned::Table;
        let freed = Freed { first: address, last: address + (size_bytes - 1) };
        let stale = self.may.stale.leading_to(freed.first, freed.last);
        let stale = stale.filter(|(entry, _)| entry.leads_to(freed.first, freed.last));
        let mut left: Vec<Held> = stale.map(|(entry, it)| (*entry, it.holders.clone())).collect();
        left.sort_unstable_by_key(|it| it.0);
        #[cfg(debug_assertions)]
        let is_held = !left.is_empty();
        left.retain(|(entry, holders)| !self.is_still_so(entry, holders, &freed));
        let walked = self.walked_references(&freed);
        // The naive way does not tell walks from what is held.
        #[cfg(debug_assertions)]
        assert!(is_held || self.leaves_nothing_out(&freed, &walked), "whatever leads to {address:#x} is found");
        left.extend(walked);
        if is_table {
            left.extend(self.links_to(&freed));
        }
        let (roots, aside) =
            if is_table { (self.live_roots(&freed), self.links_beside(&freed)) } else { (0, Vec::new()) };
        if roots != 0 || !left.is_empty() || !aside.is_empty() {
            return self.report_memory(cpu, address, &left, roots, &aside);
        }
        if is_table {
            self.note_ways(&freed);
            (freed.first >> 12..=freed.last >> 12).for_each(|page| self.may.forget_table(page << 12));
            self.may.freed.add(freed.first, freed.last, self.event);
        }
    }

    /// V3 of the first of `left`, or of a root; with all else that leads to the memory.
    fn report_memory(&mut self, cpu: u8, address: u64, left: &[Held], roots: Cpus, aside: &[Entry]) {
        let root = |entry: &Entry| self.may.space(entry.space).space.root();
        let key = |it: &Entry| (it.tag, it.start, it.level, it.body, root(it));
        let mut all: Vec<Entry> = Vec::new();
        for entry in left.iter().map(|it| &it.0).chain(aside) {
            if !all.iter().any(|it| key(it) == key(entry)) {
                all.push(*entry);
            }
        }
        let also = all.iter().skip(usize::from(!left.is_empty())).map(|it| (*it, root(it))).collect();
        match left.first() {
            Some((entry, holders)) => self.report_reuse(cpu, address, Some(*entry), holders, also),
            None => self.report_reuse(cpu, address, None, &Holders::of(GLOBAL, roots), also),
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

    /// Entries that lead to the memory and that a walk finds, though not by what is written now.
    fn walked_references(&mut self, freed: &Freed) -> Vec<Held> {
        if !self.is_strict && self.may.is_up_to_date() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for word in self.may.words_leading_to(freed.first, freed.last) {
            self.walk_by(word, freed, &mut found);
        }
        self.unlinked(&found)
    }

    /// Whether the naive way finds as much as [`Self::walked_references`] did.
    #[cfg(debug_assertions)]
    fn leaves_nothing_out(&self, freed: &Freed, walked: &[Held]) -> bool {
        let naive = self.may.effort.free(|| self.is_walked_naively(freed));
        naive.is_none_or(|naive| naive != walked.is_empty())
    }

    /// What walks find at `word` that leads to the memory, and whether by what is written now.
    fn walk_by(&self, word: u64, freed: &Freed, found: &mut Vec<(Held, bool)>) {
        for place in self.may.places_of(word).iter() {
            let tag = self.may.space(place.space).space.tag();
            let question = Question::at(word, place);
            self.may.each_reached(tag, &question, &mut |seen, holders| note(seen, holders, freed, found));
        }
    }

    /// Those of `found` that somebody cannot find by what is written now; or all.
    fn unlinked(&self, found: &[(Held, bool)]) -> Vec<Held> {
        let asked = found.iter().filter(|(_, is_linked)| self.is_strict || !is_linked);
        let left = asked.map(|((entry, holders), _)| {
            let mut holders = holders.clone();
            if !self.is_strict {
                holders.subtract(&self.linked_for(entry));
            }
            (*entry, holders)
        });
        left.filter(|(_, holders)| !holders.is_empty()).collect()
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
    fn is_walked_naively(&self, freed: &Freed) -> Option<bool> {
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
        Some(!self.unlinked(&found).is_empty())
    }

    /// Table entries that walks still find and that lead to the memory.
    pub(super) fn links_to(&self, freed: &Freed) -> Vec<Held> {
        let mut found = Vec::new();
        let uses = (freed.first >> 12..=freed.last >> 12).flat_map(|it| self.may.table_spaces(it << 12));
        for (space, base, level) in uses {
            let question = Question { deepest: level - 1, near: Some(space), ..Question::about(base, base) };
            let tag = self.may.space(space).space.tag();
            self.may.each_reached(tag, &question, &mut |seen, holders| note(seen, holders, freed, &mut found));
        }
        found.retain(|((entry, _), _)| entry.is_table());
        found.into_iter().map(|it| it.0).collect()
    }

    /// Links to a table, and their places, in page tables that no CPU walks.
    pub(super) fn links_aside(&self, freed: &Freed) -> Vec<(Entry, u64)> {
        let mut found = Vec::new();
        let uses = (freed.first >> 12..=freed.last >> 12).flat_map(|it| self.may.table_spaces(it << 12));
        for (space, base, level) in uses.filter(|it| self.may.space(it.0).live.is_empty()) {
            let question = Question { deepest: level - 1, ..Question::about(base, base) };
            self.may.reach_root(space, !0, &question, &mut |seen| {
                if let Found::Entry { entry, .. } = seen.found
                    && seen.route.is_current
                    && entry.is_table()
                    && entry.leads_to(freed.first, freed.last)
                {
                    found.push((entry, seen.word));
                }
            });
        }
        found
    }

    /// Those of them where a page table of another root had the table too: whoever took it out of one has forgotten the other. Where
    /// nobody else had it, the page table may be on its way out from below; where a root is given away, it is on its way out.
    fn links_beside(&self, freed: &Freed) -> Vec<Entry> {
        let root = |space| self.may.space(space).space.root();
        let uses = (freed.first >> 12..=freed.last >> 12).flat_map(|it| self.may.table_spaces(it << 12));
        let mut roots: Vec<u64> = uses.map(|(space, ..)| root(space)).collect();
        roots.retain(|root| self.may.freed.piece(*root).is_none() && !freed.has(*root));
        let is_beside = |entry: &Entry| {
            let own = root(entry.space);
            roots.contains(&own) && roots.iter().any(|other| *other != own)
        };
        let aside = self.links_aside(freed).into_iter().map(|it| it.0);
        aside.filter(is_beside).collect()
    }

    /// The CPUs that may begin walks at a root within the memory.
    pub(super) fn live_roots(&self, freed: &Freed) -> Cpus {
        let is_within = |id, root| self.may.physical(id, root).into_iter().any(|at| freed.has(at));
        let live = self.may.spaces().filter(|(_, it)| !it.live.is_empty() && !is_flat(&it.space));
        let roots = live.filter(|(id, it)| is_within(*id, it.space.root()));
        roots.fold(0, |all, (_, it)| all | it.live.cpus())
    }
}

fn note(seen: &Seen<'_>, holders: &Holders, freed: &Freed, found: &mut Vec<(Held, bool)>) {
    if let Found::Entry { entry, is_untranslated: false } = seen.found
        && entry.leads_to(freed.first, freed.last)
    {
        found.push(((entry, holders.clone()), seen.route.is_current));
    }
}
