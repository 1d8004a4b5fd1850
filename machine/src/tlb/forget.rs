//! What a change ends of what is remembered: a word, or who sees which of its values; who may hold a stale entry; who may walk
//! a page table.

use super::entry::{Entry, SpaceId};
use super::may::May;
use super::question::Question;
use super::space::Space;
use crate::context::Regime;
use crate::descriptor::CONTIGUOUS;

impl May {
    /// A word of stage 2 changed, or who may see which of `values` there.
    pub(super) fn forget_word(&mut self, word: u64, values: &[u64]) {
        let is_in_set = values.iter().any(|value| value & CONTIGUOUS != 0);
        for place in self.places_of(word).iter() {
            let Space::Two(stage2) = &self.space(place.space).space else { continue };
            let (vmid, geometry) = (stage2.vmid, stage2.geometry);
            // Each member of a contiguous set may answer for every other.
            let set = if is_in_set { geometry.contiguous_log2(place.level).unwrap_or(0) } else { 0 };
            let set = set + geometry.slot_shift(place.level);
            self.remembered.forget_beneath(vmid, place.start >> set << set, place.last | ((1 << set) - 1));
        }
    }

    /// Who may hold `entry` changed.
    pub(crate) fn forget_entry(&mut self, entry: &Entry) {
        if entry.tag.regime == Regime::Stage2 {
            let (first, last) = (entry.start.min(entry.own_start), entry.last().max(entry.own_last()));
            self.remembered.forget_beneath(entry.tag.vmid, first, last);
        }
    }

    /// Who may walk the page table changed.
    pub(super) fn forget_space(&mut self, space: SpaceId) {
        if let Space::Two(stage2) = &self.space(space).space {
            let vmid = stage2.vmid;
            let Question { first, last, .. } = Question::EVERYWHERE;
            self.remembered.forget_beneath(vmid, first, last);
        }
    }
}
