//! V1 and V12 above a stage 2: what stage 1 had made of the old stage 2, and no walk makes any more, must not meet what it
//! makes of the new one. A TLBI by intermediate address does not end such entries. (DDI 0487, D8.17.5)
//!
//! Only these need be looked at: while an old entry of stage 2 itself is left, that one meets the new one.

use alloc::vec::Vec;

use super::overlap::Side;
use crate::context::{Regime, Tag};
use crate::machine::Machine;
use crate::tlb::entry::{Entry, SpaceId};
use crate::tlb::found::Found;
use crate::tlb::holders::Holders;
use crate::tlb::question::{Question, Through};

/// Stale entries of one page table, and the addresses from the first of them to the last, with no gap between.
struct Group {
    space: SpaceId,
    first: u64,
    last: u64,
    stale: Vec<(Entry, Holders)>,
}

impl Machine {
    /// `cpu` stored `value` over `old` at `word`, perhaps a descriptor of stage 2.
    pub(super) fn check_combined(&mut self, cpu: u8, word: u64, old: u64, value: u64) {
        let places = self.may().places_of(word);
        let tags = places.iter().map(|it| self.may().space(it.space).space.tag());
        let mut tags: Vec<Tag> = tags.filter(|tag| tag.regime == Regime::Stage2).collect();
        tags.dedup();
        for tag in tags.iter().map(|it| Tag::el10(it.vmid)) {
            for group in self.groups(tag) {
                let new = self.through(tag, Through::Word(word, value), &group);
                if new.is_empty() {
                    continue;
                }
                let Some(mut finding) = group.stale.iter().find_map(|(entry, holders)| {
                    let mut kept = match entry.is_table() {
                        true => self.through(tag, Through::Record(*entry), &group),
                        false => Vec::new(),
                    };
                    kept.push(Side { entry: *entry, holders: holders.clone(), word: u64::MAX });
                    self.first_conflict(cpu, &new, &kept, None)
                }) else {
                    continue;
                };
                finding.store = Some((word, old, value));
                return self.report(finding);
            }
        }
    }

    /// The stale combined entries of `tag`.
    fn groups(&self, tag: Tag) -> Vec<Group> {
        let stale = self.may().stale.of(tag).filter(|(entry, _)| entry.is_combined);
        let mut stale: Vec<(Entry, Holders)> = stale.map(|(entry, it)| (*entry, it.holders.clone())).collect();
        stale.sort_by_key(|(entry, _)| (entry.space, entry.start));
        let mut groups: Vec<Group> = Vec::new();
        for (entry, holders) in stale {
            match groups.last_mut() {
                Some(group) if group.space == entry.space && entry.start <= group.last.saturating_add(1) => {
                    group.last = group.last.max(entry.last());
                    group.stale.push((entry, holders));
                }
                _ => {
                    let (space, first, last) = (entry.space, entry.start, entry.last());
                    groups.push(Group { space, first, last, stale: alloc::vec![(entry, holders)] });
                }
            }
        }
        groups
    }

    /// What walks for the addresses of `group` find through this one thing.
    fn through(&self, tag: Tag, through: Through, group: &Group) -> Vec<Side> {
        let mut found = Vec::new();
        let about = Question::about(group.first, group.last);
        let question = Question { through: Some(through), is_only_through: true, near: Some(group.space), ..about };
        self.may().each_reached(tag, &question, &mut |seen, holders| {
            if let (true, Found::Entry { entry, is_untranslated: false, .. }) = (seen.route.is_through, seen.found) {
                found.push(Side { entry, holders: holders.clone(), word: seen.word });
            }
        });
        found
    }
}
