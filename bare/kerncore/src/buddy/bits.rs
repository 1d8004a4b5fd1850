//! Sets of small numbers as bits in words that somebody else owns.
//!
//! A [`BitTree`] finds its least member in a step per level: each bit of a level says whether a word of the level below has
//! any. With 64 bits in a word, seven levels serve 2^42 numbers, and all but the lowest take 1/63 more memory.
//!
//! ```text
//!   level 1   0 0 1 0 ...            one bit for each word below
//!   level 0   0000 0000 0110 0000    one bit for each number
//! ```

use core::ops::Range;

const WORD_BITS: usize = u64::BITS as usize;
const LEVELS: usize = 7;

fn bit(index: usize) -> u64 {
    1 << (index % WORD_BITS)
}

/// Of a range that lies within a word.
fn mask(range: &Range<usize>) -> u64 {
    ((1 << range.len()) - 1) << (range.start % WORD_BITS)
}

/// A set of numbers below a bound, kept from the word `first` on.
#[derive(Clone, Copy)]
pub(super) struct BitSet {
    first: usize,
}

impl BitSet {
    /// The set whose words begin at `*end`, which moves behind them.
    pub(super) fn place(bound: usize, end: &mut usize) -> Self {
        let first = *end;
        *end += bound.div_ceil(WORD_BITS);
        Self { first }
    }

    pub(super) fn contains(&self, words: &[u64], index: usize) -> bool {
        words[self.first + index / WORD_BITS] & bit(index) != 0
    }

    /// Adds `index`; returns whether its word had nothing.
    fn insert(&self, words: &mut [u64], index: usize) -> bool {
        let word = &mut words[self.first + index / WORD_BITS];
        let was_empty = *word == 0;
        *word |= bit(index);
        was_empty
    }

    /// Takes `index` out; returns whether its word has nothing now.
    fn remove(&self, words: &mut [u64], index: usize) -> bool {
        let word = &mut words[self.first + index / WORD_BITS];
        *word &= !bit(index);
        *word == 0
    }

    /// Puts `index` in or takes it out.
    #[inline]
    pub(super) fn set(&self, words: &mut [u64], index: usize, is_in: bool) {
        if is_in {
            self.insert(words, index)
        } else {
            self.remove(words, index)
        };
    }

    /// Adds a range, which lies within a word, or begins and ends with one.
    pub(super) fn insert_all(&self, words: &mut [u64], range: Range<usize>) {
        if range.len() < WORD_BITS {
            words[self.first + range.start / WORD_BITS] |= mask(&range);
        } else {
            words[self.first + range.start / WORD_BITS..self.first + range.end / WORD_BITS].fill(!0);
        }
    }

    /// Takes a range out, all of which is in the set; whether that is so. The range lies within a word, or begins and ends with one.
    pub(super) fn remove_all(&self, words: &mut [u64], range: Range<usize>) -> bool {
        let mask = if range.len() < WORD_BITS { mask(&range) } else { !0 };
        let words = &mut words[self.first + range.start / WORD_BITS..self.first + range.end.div_ceil(WORD_BITS)];
        let is_in = words.iter().all(|word| word & mask == mask);
        words.iter_mut().filter(|_| is_in).for_each(|word| *word &= !mask);
        is_in
    }

    /// Whether a number of `range` is in the set. The range lies within a word, or begins and ends with one.
    pub(super) fn has_any(&self, words: &[u64], range: Range<usize>) -> bool {
        if range.len() < WORD_BITS {
            return words[self.first + range.start / WORD_BITS] & mask(&range) != 0;
        }
        words[self.first + range.start / WORD_BITS..self.first + range.end / WORD_BITS].iter().any(|&word| word != 0)
    }
}

/// A set whose least member is found quickly.
#[derive(Clone, Copy)]
pub(super) struct BitTree {
    /// From the members up; unused ones repeat the top.
    levels: [BitSet; LEVELS],
    height: usize,
}

impl BitTree {
    /// No level, for a place that is filled later.
    pub(super) const UNPLACED: Self = Self { levels: [BitSet { first: 0 }; LEVELS], height: 0 };

    /// The set whose words begin at `*end`, which moves behind them.
    pub(super) fn place(bound: usize, end: &mut usize) -> Self {
        let mut tree = Self::UNPLACED;
        let mut bound = bound.max(1);
        while tree.height < LEVELS {
            tree.levels[tree.height] = BitSet::place(bound, end);
            tree.height += 1;
            bound = bound.div_ceil(WORD_BITS);
            if bound == 1 {
                break;
            }
        }
        tree
    }

    /// The members alone, without the way to the least.
    pub(super) fn members(&self) -> &BitSet {
        &self.levels[0]
    }

    pub(super) fn insert(&self, words: &mut [u64], mut index: usize) {
        for level in &self.levels[..self.height] {
            if !level.insert(words, index) {
                return;
            }
            index /= WORD_BITS;
        }
    }

    pub(super) fn remove(&self, words: &mut [u64], mut index: usize) {
        for level in &self.levels[..self.height] {
            if !level.remove(words, index) {
                return;
            }
            index /= WORD_BITS;
        }
    }

    /// The least member.
    pub(super) fn first(&self, words: &[u64]) -> Option<usize> {
        self.levels[..self.height].iter().rev().try_fold(0, |index, level| {
            let word = words[level.first + index];
            (word != 0).then(|| index * WORD_BITS + word.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec;

    use super::*;

    proptest! {
        #[test]
        fn a_tree_is_a_set(
            bound in prop_oneof![1usize..200, 4000usize..5000, Just(64), Just(4096), Just(300_000)],
            steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200),
        ) {
            let mut end = 3;
            let tree = BitTree::place(bound, &mut end);
            let mut words = vec![0; end];
            let mut model = BTreeSet::new();
            for (index, is_in) in steps {
                let index = index.index(bound);
                if is_in {
                    tree.insert(&mut words, index);
                    model.insert(index);
                } else {
                    tree.remove(&mut words, index);
                    model.remove(&index);
                }
                prop_assert_eq!(tree.first(&words), model.first().copied());
                prop_assert_eq!(tree.members().contains(&words, index), is_in);
            }
            for shift in 0..12 {
                for block in 0..(bound >> shift).min(100) {
                    let range = block << shift..(block + 1) << shift;
                    let expected = model.range(range.clone()).next().is_some();
                    prop_assert_eq!(tree.members().has_any(&words, range), expected);
                }
            }
            prop_assert_eq!(&words[..3], &[0; 3]);
        }
    }

    #[test]
    fn the_largest_tree_costs_a_sixty_third_more() {
        let mut end = 0;
        let tree = BitTree::place(1 << 30, &mut end);
        assert_eq!(tree.height, 5);
        assert_eq!(end, (1 << 24) + (1 << 18) + (1 << 12) + (1 << 6) + 1);
    }
}
