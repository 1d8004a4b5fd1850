//! A set of pages, one bit for each frame of a layout: any CPU asks and changes it without a lock.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use vmsa::PhysAddr;

use super::{Layout, WrongLength};
use crate::range::PhysicalRange;

const WORD_BITS: usize = u64::BITS as usize;

/// A set of pages; its bits are in `'n`.
pub struct PageSet<'n> {
    layout: &'n Layout,
    words: &'n [AtomicU64],
}

impl<'n> PageSet<'n> {
    /// How many words a set of the frames of `layout` takes.
    pub fn words(layout: &Layout) -> usize {
        layout.frames().div_ceil(WORD_BITS)
    }

    /// The set without any page. What the words hold is overwritten.
    pub fn new(layout: &'n Layout, words: &'n [AtomicU64]) -> Result<Self, WrongLength> {
        let expected = Self::words(layout);
        if words.len() != expected {
            return Err(WrongLength { expected, found: words.len() });
        }
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        Ok(Self { layout, words })
    }

    /// Adds `count` pages from `first` on. Pages that the layout has no frames for are passed over.
    pub fn insert(&self, first: PhysAddr, count: usize) {
        for (word, bits) in self.parts(first, count) {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Takes `count` pages from `first` on out.
    pub fn remove(&self, first: PhysAddr, count: usize) {
        for (word, bits) in self.parts(first, count) {
            word.fetch_and(!bits, Ordering::Relaxed);
        }
    }

    /// Whether the page that holds an address is in the set.
    pub fn contains(&self, address: PhysAddr) -> bool {
        let page = address.align_down(self.layout.page_size().size_bytes());
        self.parts(page, 1).any(|(word, bits)| word.load(Ordering::Relaxed) & bits != 0)
    }

    /// How many pages it has.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Its pages, ascending: those that lie side by side as one range.
    pub fn runs(&self) -> impl Iterator<Item = PhysicalRange> {
        let (bytes, mut frames) = (self.layout.page_size().size_bytes(), 0..self.layout.frames());
        let is_in =
            |frame: &usize| self.words[frame / WORD_BITS].load(Ordering::Relaxed) >> (frame % WORD_BITS) & 1 != 0;
        core::iter::from_fn(move || {
            let first = frames.find(is_in)?;
            let start = self.layout.address(first);
            // The next frame may be of another bank.
            let is_beside = |frame: &usize| self.layout.address(*frame) == start + (frame - first) as u64 * bytes;
            let count = frames.clone().take_while(|frame| is_in(frame) && is_beside(frame)).count();
            frames.start += count;
            Some(PhysicalRange::from_size(start, (1 + count as u64) * bytes))
        })
    }

    /// The words that hold the bits of some pages, and which bits.
    fn parts(&self, first: PhysAddr, count: usize) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let frames = self.layout.frame(first).map_or(0..0, |frame| frame..frame + count);
        let Range { mut start, end } = frames.start..frames.end.min(self.layout.frames());
        core::iter::from_fn(move || {
            let bit = start % WORD_BITS;
            let taken = (WORD_BITS - bit).min(end.checked_sub(start).filter(|left| *left > 0)?);
            let word = &self.words[start / WORD_BITS];
            start += taken;
            Some((word, u64::MAX >> (WORD_BITS - taken) << bit))
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;
    use vmsa::PageSize;

    use super::*;

    const PAGE: u64 = 4096;
    const BANKS: [(u64, u64); 2] = [(0x4000_0000, 0x400_0000), (0x1_0000_0000, 0x200_0000)];

    fn layout() -> Layout {
        let ranges = BANKS.map(|(start, bytes)| PhysicalRange::from_size(PhysAddr::new(start), bytes));
        Layout::new(PageSize::Size4K, ranges.into_iter())
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_pages(
            steps in prop::collection::vec((0usize..2, 0u64..8192, 1usize..300, any::<bool>()), 0..60),
        ) {
            let layout = layout();
            let words: Vec<_> = (0..PageSet::words(&layout)).map(|_| AtomicU64::new(u64::MAX)).collect();
            let set = PageSet::new(&layout, &words).unwrap();
            let mut model = BTreeSet::new();
            for (bank, page, count, is_in) in steps {
                let (start, bytes) = BANKS[bank];
                let page = page.min(bytes / PAGE - 1);
                let count = count.min((bytes / PAGE - page) as usize);
                let first = start + page * PAGE;
                let pages = (0..count as u64).map(|number| first + number * PAGE);
                if is_in {
                    set.insert(PhysAddr::new(first), count);
                    model.extend(pages);
                } else {
                    set.remove(PhysAddr::new(first), count);
                    pages.for_each(|page| _ = model.remove(&page));
                }
                prop_assert_eq!(set.count(), model.len());
                for near in [first.wrapping_sub(PAGE), first, first + count as u64 * PAGE - 1, first + count as u64 * PAGE] {
                    prop_assert_eq!(set.contains(PhysAddr::new(near)), model.contains(&(near & !(PAGE - 1))));
                }
            }
            let runs: Vec<_> = set.runs().map(|run| run.start.bits()..run.end.bits()).collect();
            prop_assert!(runs.iter().flat_map(|run| run.clone().step_by(PAGE as usize)).eq(model.iter().copied()));
            prop_assert!(runs.is_sorted_by(|run, next| run.end < next.start));
        }
    }

    #[test]
    fn what_no_frame_is_for_is_not_in_it() {
        let layout = layout();
        let words: Vec<_> = (0..PageSet::words(&layout)).map(|_| AtomicU64::new(0)).collect();
        let set = PageSet::new(&layout, &words).unwrap();
        set.insert(PhysAddr::new(0x1000), 4);
        assert_eq!(set.count(), 0);
        assert!(!set.contains(PhysAddr::new(0x1000)));
        assert!(PageSet::new(&layout, &words[1..]).is_err());
    }
}
