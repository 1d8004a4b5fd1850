//! Where descriptors lead: for a piece of memory, the words whose value, now or for some walker still, is a descriptor that
//! leads there. A hint, never the truth: what walks find by such a word is asked of `reach`. Nothing is known until
//! memory is given away while something is out of date; from then on each value is noted when a walk may first meet it.

use alloc::vec::Vec;

use super::entry::{SpaceId, bytes};
use super::may::May;
use super::space::SpaceState;
use crate::context::{Regime, Tag};
use crate::descriptor::{Descriptor, Hierarchy, VALID};

impl May {
    /// `value` at `word` may now be walked as a descriptor of `level` for input addresses from `base`.
    pub(crate) fn note_output(&mut self, space: SpaceId, level: i8, word: u64, value: u64, base: u64) {
        let state = self.space(space);
        let Some((log2, first)) = span(state, level, value, base) else { return };
        let memory = state.beneath;
        self.remembered.outputs().note(memory, log2, first, word);
    }

    /// The words by which walks of any CPU may come to physical `first..=last`, and perhaps others.
    pub(crate) fn words_leading_to(&mut self, first: u64, last: u64) -> Vec<u64> {
        if self.remembered.begin_outputs() {
            self.note_all_outputs();
        }
        let mut words = self.leading(None, first, last);
        // What stage 2 outputs may be what stage 1 has made of it.
        let mut spans = self.kept_intermediate(first, last);
        words.iter().for_each(|&word| spans.append(&mut self.intermediate(word, first, last)));
        for (stage2, first, last) in spans {
            words.append(&mut self.leading(Some(stage2), first, last));
        }
        words.sort_unstable();
        words.dedup();
        words
    }

    fn leading(&mut self, memory: Option<SpaceId>, first: u64, last: u64) -> Vec<u64> {
        let found = self.remembered.outputs().leading(memory, first, last);
        found.iter().for_each(|_| self.effort.spend());
        let is_valid = |word: u64| {
            let mut old = self.visible.old(word).iter().map(|it| it.value);
            self.memory.word(word) & VALID != 0 || old.any(|it| it & VALID != 0)
        };
        let (true_ones, over): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|it| is_valid(it.2) && !self.places_of(it.2).is_empty());
        over.into_iter().for_each(|over| self.remembered.outputs().remove(memory, over));
        true_ones.into_iter().map(|it| it.2).collect()
    }

    /// The intermediate addresses for which `word`, if it is of a stage 2, may output `first..=last`.
    fn intermediate(&self, word: u64, first: u64, last: u64) -> Vec<(SpaceId, u64, u64)> {
        let mut spans = Vec::new();
        let values = self.visible.old(word).iter().map(|it| it.value).chain([self.memory.word(word)]);
        for value in values {
            for place in self.places_of(word).iter() {
                let is_beneath = self.spaces().any(|(_, it)| it.beneath == Some(place.space));
                let span = span(self.space(place.space), place.level, value, place.start);
                if let (true, Some((log2, from))) = (is_beneath, span) {
                    let start = place.start & !(bytes(log2) - 1);
                    let offset = |address: u64| address.wrapping_sub(from).min(bytes(log2) - 1);
                    let low = if offset(first) <= offset(last) { offset(first) } else { 0 };
                    spans.push((place.space, start + low, start + offset(last)));
                }
            }
        }
        spans
    }

    /// The intermediate addresses for which a leaf of stage 2 that only TLBs hold outputs `first..=last`: walks of stage 1
    /// find its tables through it.
    fn kept_intermediate(&mut self, first: u64, last: u64) -> Vec<(SpaceId, u64, u64)> {
        let stale = self.stale.leading_to(first, last);
        let leaves = stale.filter(|(it, _)| it.tag.regime == Regime::Stage2 && !it.is_table());
        let kept: Vec<(Tag, u64, u64)> = leaves.map(|(it, _)| (it.tag, it.start, it.last())).collect();
        let mut spans = Vec::new();
        for (tag, first, last) in kept {
            let beneath = self.spaces().filter_map(|(_, it)| it.beneath);
            spans.extend(beneath.filter(|&it| self.space(it).space.tag() == tag).map(|it| (it, first, last)));
        }
        spans.sort_unstable();
        spans.dedup();
        spans
    }

    fn note_all_outputs(&mut self) {
        for (space, level, word, base) in self.descriptors() {
            self.note_output(space, level, word, self.memory.word(word), base);
            for at in 0..self.visible.old(word).len() {
                self.note_output(space, level, word, self.visible.old(word)[at].value, base);
            }
        }
    }
}

/// What `value` leads to as a descriptor of `level` for input addresses from `base`: the next table, or what a leaf, with
/// the Contiguous bit its whole set, outputs. Base-2 logarithm of the size, and the first address.
fn span(state: &SpaceState, level: i8, value: u64, base: u64) -> Option<(u8, u64)> {
    let (geometry, format) = (state.space.geometry(), state.space.format());
    match format.decode(level, format.settled(level, value), Hierarchy::default()) {
        Descriptor::Table { next, .. } => Some((geometry.granule.shift(), next)),
        Descriptor::Leaf { output, attributes, .. } => {
            let group = if attributes.is_contiguous { geometry.contiguous_log2(level).unwrap_or(0) } else { 0 };
            let log2 = geometry.slot_shift(level) + group;
            Some((log2, output.wrapping_sub(base & (bytes(log2) - 1))))
        }
        _ => None,
    }
}
