//! V1 and V12 above a stage 2: what stage 1 had made of the old stage 2, and no walk makes any more, must not meet what it
//! makes of the new one. A TLBI by intermediate address does not end such entries. (DDI 0487, D8.17.5)
//!
//! Only these need be looked at: while an old entry of stage 2 itself is left, that one meets the new one.

use alloc::vec::Vec;

use super::overlap::Side;
use crate::context::{Regime, Tag};
use crate::machine::Machine;
use crate::tlb::entry::Entry;
use crate::tlb::holders::Holders;
use crate::tlb::question::{Question, Through};

impl Machine {
    /// `cpu` stored `value` over `old` at `word`, perhaps a descriptor of stage 2.
    pub(super) fn check_combined(&mut self, cpu: u8, word: u64, old: u64, value: u64) {
        let places = self.may().places_of(word);
        let mut vmids: Vec<u16> = places
            .iter()
            .map(|it| self.may().space(it.space).space.tag())
            .filter(|tag| tag.regime == Regime::Stage2)
            .map(|tag| tag.vmid)
            .collect();
        vmids.dedup();
        for vmid in vmids {
            let tag = Tag::el10(vmid);
            let stale = self.may().stale.overlapping(tag, 0, u64::MAX).filter(|(entry, _)| entry.is_combined);
            let stale: Vec<(Entry, Holders)> = stale.map(|(entry, it)| (*entry, it.holders.clone())).collect();
            for (entry, holders) in stale {
                let about = Question { near: Some(entry.space), ..Question::about(entry.start, entry.last()) };
                let new = self.sides(tag, &Question { through: Some(Through::Word(word, value)), ..about }).0;
                if new.is_empty() {
                    continue;
                }
                let kept = if entry.is_table() {
                    self.sides(tag, &Question { through: Some(Through::Record(entry)), ..about }).0
                } else {
                    alloc::vec![Side { entry, holders, word: u64::MAX }]
                };
                if let Some(mut finding) = self.first_conflict(cpu, &new, &kept, None) {
                    // What is found by way of an old table is explained by that.
                    self.explain_by(&mut finding, &entry);
                    finding.store = Some((word, old, value));
                    return self.report(finding);
                }
            }
        }
    }
}
