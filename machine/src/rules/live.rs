//! V5, V8 and V9: what a store to a live descriptor takes from hardware, from the CPU itself, or from order.

use alloc::vec::Vec;

use crate::attributes::Permissions;
use crate::descriptor::{ACCESS_FLAG, DIRTY_MODIFIER, Descriptor, Hierarchy, READ_ONLY, STAGE2_WRITE, VALID};
use crate::finding::{Finding, Missing, Rule};
use crate::machine::Machine;
use crate::tlb::entry::{Entry, SpaceId};
use crate::tlb::found::Found;
use crate::tlb::holders::Holders;
use crate::tlb::question::Question;
use crate::tlb::space::Space;

impl Machine {
    /// V5: hardware may be setting the access flag or the dirty state of what `cpu` is about to store over. (IGXGZY)
    pub(crate) fn check_lost_update(&mut self, cpu: u8, word: u64, value: u64) {
        let old = self.may().memory.word(word);
        if old & VALID == 0 || old == value {
            return;
        }
        for place in self.may().places_of(word).iter() {
            let state = self.may().space(place.space);
            let format = state.space.format();
            let hardware = format.hardware();
            let is_leaf = matches!(format.decode(place.level, old, Hierarchy::default()), Descriptor::Leaf { .. });
            let is_clean = match state.space {
                Space::One(_) => old & READ_ONLY != 0,
                Space::Two(_) => old & STAGE2_WRITE == 0,
            };
            let may_set_access = old & ACCESS_FLAG == 0;
            let may_set_dirty = hardware.dirty_state && old & DIRTY_MODIFIER != 0 && is_clean;
            let is_updated = is_leaf && !state.live.is_empty() && (may_set_access || may_set_dirty);
            // A table that no walk finds here any more may keep this place in the index, as long as it is no table elsewhere.
            // What both stages made is told by stage 1's place, wherever stage 2's is.
            let is_at = |it: &Entry| (it.space, it.level, it.own_start) == (place.space, place.level, place.start);
            let is_here = |it: &Entry| it.is_combined || is_at(it);
            if is_updated && self.may().entries_through(word, old).iter().any(|(entry, _)| is_here(entry)) {
                let mut finding = Finding::new(Rule::LostUpdate, self.events(), cpu, place.start);
                finding.store = Some((word, old, value));
                finding.cpus = state.live.cpus();
                finding.missing = Missing::Exchange;
                return self.report(finding);
            }
        }
    }

    /// V8: a break takes away what a CPU that may walk here has said it cannot do without.
    pub(crate) fn check_ground(&mut self, cpu: u8, word: u64, old: u64, value: u64) {
        if self.cpus().iter().all(|it| it.needs.is_empty()) || old & VALID == 0 {
            return;
        }
        for place in self.may().places_of(word).iter() {
            let state = self.may().space(place.space);
            for (number, it) in self.cpus().iter().enumerate() {
                let is_here = state.live.cpus() >> number & 1 == 1;
                let needs = it.needs.iter().find(|(first, last)| *first <= place.last && *last >= place.start);
                let Some((first, last)) = needs.filter(|_| is_here) else { continue };
                let (first, last) = ((*first).max(place.start), (*last).min(place.last));
                if self.is_mapped(place.space, first, last, word, value) {
                    continue;
                }
                let mut finding = Finding::new(Rule::OwnGround, self.events(), cpu, first);
                finding.store = Some((word, old, value));
                finding.cpus = 1 << number;
                return self.report(finding);
            }
        }
    }

    /// True when walks through `value` at `word` find a readable leaf for every address from `first` to `last`.
    fn is_mapped(&self, space: u32, first: u64, last: u64, word: u64, value: u64) -> bool {
        let through = Some(crate::tlb::question::Through::Word(word, value));
        let question = Question { through, near: Some(space), ..Question::about(first, last) };
        let mut found = Vec::new();
        self.may().each_reached(self.may().space(space).space.tag(), &question, &mut |seen, _| {
            if let Found::Entry { entry, is_untranslated: false, .. } = seen.found
                && seen.route.is_through
                && entry.attributes().is_some_and(|it| it.permissions.has(Permissions::READ))
            {
                found.push((entry.own_start, entry.own_last()));
            }
        });
        // Walks may find an address by more than one way, and a leaf of a set beside the one that they came by.
        found.sort_unstable();
        let mut next = Some(first);
        for (start, end) in found {
            next = next.filter(|&next| start <= next && next <= end).map_or(next, |_| end.checked_add(1));
        }
        next.is_none_or(|next| next > last)
    }

    /// V9: `cpu` linked a table, but nothing orders its contents before the link.
    pub(crate) fn check_linked(&mut self, cpu: u8, word: u64, value: u64) {
        if value & 3 != 3 {
            return;
        }
        if let Some(late) = self.may_mut().link_loose(cpu) {
            let start = self.may().places_of(late).first().map(|place| place.start).unwrap_or_default();
            let mut finding = Finding::new(Rule::NotVisible, self.events(), cpu, start);
            finding.store = Some((word, 0, value));
            finding.missing = Missing::Visibility(late);
            self.report(finding);
        }
    }

    /// V9: `come` may walk `space` from now on, but somebody's stores to its tables are not finished. A register is no
    /// store: to order it after them takes a DSB.
    pub(crate) fn check_seen(&mut self, cpu: u8, space: SpaceId, come: &Holders) {
        if let Some(late) = self.may_mut().unseen_in(space, come.cpus()) {
            let start = self.may().places_of(late).first().map(|place| place.start).unwrap_or_default();
            let mut finding = Finding::new(Rule::NotVisible, self.events(), cpu, start);
            finding.missing = Missing::Visibility(late);
            self.report(finding);
        }
    }
}
