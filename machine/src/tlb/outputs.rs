//! Where descriptors lead: for a piece of memory, the words whose value, now or for some walker still, is a descriptor that
//! leads there. A hint, never the truth: what walks find by such a word is asked of `reach`. Nothing is known until
//! memory is given away while something is out of date; from then on each value is noted when a walk may first meet it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::entry::{SpaceId, bytes};
use super::may::{May, SpaceState};
use crate::descriptor::{Descriptor, Hierarchy, VALID};

/// Spans of memory that belong to something, found by the addresses they cover.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans<T> {
    /// Base-2 logarithm of the size, first address, whose it is.
    spans: BTreeSet<(u8, u64, T)>,
    /// How many there are of each size.
    counts: BTreeMap<u8, usize>,
}

impl<T: Copy + Ord + Default> Spans<T> {
    pub(crate) fn add(&mut self, log2: u8, first: u64, of: T) {
        if self.spans.insert((log2, first, of)) {
            *self.counts.entry(log2).or_default() += 1;
        }
        // The part of it that lies before address 0 is at the end of memory: there is none.
        if first.wrapping_add(bytes(log2) - 1) < first {
            self.add(log2, 0, of);
        }
    }

    pub(crate) fn remove(&mut self, log2: u8, first: u64, of: T) {
        if self.spans.remove(&(log2, first, of))
            && let Some(count) = self.counts.get_mut(&log2)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&log2);
            }
        }
        if first.wrapping_add(bytes(log2) - 1) < first {
            self.remove(log2, 0, of);
        }
    }

    /// Those that cover an address from `first` to `last`.
    pub(crate) fn covering(&self, first: u64, last: u64) -> impl Iterator<Item = (u8, u64, T)> {
        self.counts.keys().flat_map(move |&log2| {
            let low = first.saturating_sub(bytes(log2) - 1);
            let from = self.spans.range((log2, low, T::default())..);
            from.take_while(move |it| (it.0, it.1) <= (log2, last)).copied()
        })
    }
}

/// By the stage 2 whose intermediate addresses they are, or `None` for physical ones: the words that lead there.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Option<BTreeMap<Option<SpaceId>, Spans<u64>>>);

impl Clone for Outputs {
    /// A clone knows nothing, so that snapshots stay small.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl May {
    /// `value` at `word` may now be walked as a descriptor of `level` for input addresses from `base`.
    pub(crate) fn note_output(&mut self, space: SpaceId, level: i8, word: u64, value: u64, base: u64) {
        if self.outputs.0.is_none() || value & VALID == 0 {
            return;
        }
        let state = self.space(space);
        let Some((log2, first)) = span(state, level, value, base) else { return };
        let memory = state.beneath;
        if let Some(outputs) = &mut self.outputs.0 {
            outputs.entry(memory).or_default().add(log2, first, word);
        }
    }

    /// The words by which walks of any CPU may come to physical `first..=last`, and perhaps others.
    pub(crate) fn words_leading_to(&mut self, first: u64, last: u64) -> Vec<u64> {
        if self.outputs.0.is_none() {
            self.outputs.0 = Some(BTreeMap::new());
            self.note_all_outputs();
        }
        let mut words = self.leading(None, first, last);
        // What stage 2 outputs may be what stage 1 has made of it.
        for at in 0..words.len() {
            let spans = self.intermediate(words[at], first, last);
            for (stage2, first, last) in spans {
                words.append(&mut self.leading(Some(stage2), first, last));
            }
        }
        words.sort_unstable();
        words.dedup();
        words
    }

    fn leading(&mut self, memory: Option<SpaceId>, first: u64, last: u64) -> Vec<u64> {
        let Some(known) = self.outputs.0.as_ref().and_then(|it| it.get(&memory)) else { return Vec::new() };
        let found: Vec<(u8, u64, u64)> = known.covering(first, last).collect();
        let is_valid = |word: u64| {
            let mut old = self.visible.old(word).iter().map(|it| it.value);
            self.memory.word(word) & VALID != 0 || old.any(|it| it & VALID != 0)
        };
        let (true_ones, over): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|it| is_valid(it.2) && !self.places_of(it.2).is_empty());
        if let Some(known) = self.outputs.0.as_mut().and_then(|it| it.get_mut(&memory)) {
            over.into_iter().for_each(|(log2, first, word)| known.remove(log2, first, word));
        }
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
