//! Leaf sizes: a page, a block, or a contiguous group of either.

use core::fmt;

use crate::{Layout, Level, PageSize};

/// How large a leaf is: one descriptor of a level, or a contiguous group of them.
///
/// The order is that of size within one granule: a contiguous group of a level is larger than a single leaf of it and
/// smaller than a block of the level above. As a bound it [allows](Self::allows) less than all that is smaller: who names a
/// single leaf wants no groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeafSize {
    /// The level of the descriptors.
    pub level: Level,
    /// Whether it is a whole contiguous group of them (the Contiguous bit, D8.7.1).
    pub contiguous: bool,
}

impl LeafSize {
    /// One page.
    pub const PAGE: Self = Self::single(Level::L3);
    /// Larger than any leaf: as a bound it means "the largest that there is".
    pub const LARGEST: Self = Self { level: Level::MINUS_1, contiguous: true };

    /// One descriptor of `level`.
    pub const fn single(level: Level) -> Self {
        Self { level, contiguous: false }
    }

    /// A contiguous group at `level`.
    pub const fn group(level: Level) -> Self {
        Self { level, contiguous: true }
    }

    /// Whether this bound allows leaves of size `leaf`: those of its level and below, and contiguous groups only if it is
    /// one.
    pub const fn allows(self, leaf: Self) -> bool {
        self.level.number() <= leaf.level.number() && (self.contiguous || !leaf.contiguous)
    }

    /// The bound that allows what both allow.
    pub const fn and(self, other: Self) -> Self {
        let level = if self.level.number() < other.level.number() { other.level } else { self.level };
        Self { level, contiguous: self.contiguous && other.contiguous }
    }

    /// log2 of its bytes; a group counts as a single leaf where the granule has no group at that level.
    #[inline]
    pub const fn shift(self, size: PageSize) -> u32 {
        let group = match size.contiguous_shift(self.level) {
            Some(shift) if self.contiguous => shift,
            _ => 0,
        };
        size.level_shift(self.level) + group
    }

    /// Bytes it covers.
    #[inline]
    pub const fn size_bytes(self, size: PageSize) -> u64 {
        1 << self.shift(size)
    }

    /// Every leaf size of a granule and layout, from the largest.
    pub fn all(size: PageSize, layout: Layout) -> impl Iterator<Item = Self> {
        Level::ALL.into_iter().filter(move |&level| size.has_leaf(level, layout)).flat_map(move |level| {
            let group = size.contiguous_shift(level).map(|_| Self::group(level));
            group.into_iter().chain([Self::single(level)])
        })
    }
}

impl PartialOrd for LeafSize {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LeafSize {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        other.level.cmp(&self.level).then(self.contiguous.cmp(&other.contiguous))
    }
}

impl fmt::Display for LeafSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.level == Level::L3 { "page" } else { "block" };
        let group = if self.contiguous { "contiguous " } else { "" };
        write!(f, "{group}{} {kind}", self.level)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn sizes_descend_without_a_repeat() {
        for size in PageSize::ALL {
            for layout in [Layout::Bits48, Layout::Lpa, Layout::Lpa2] {
                let sizes: Vec<_> = LeafSize::all(size, layout).collect();
                assert!(sizes.windows(2).all(|pair| pair[0].shift(size) > pair[1].shift(size)), "{sizes:?}");
                assert!(sizes.windows(2).all(|pair| pair[0] > pair[1]), "{sizes:?}");
                assert_eq!(sizes.last(), Some(&LeafSize::PAGE));
            }
        }
    }

    #[test]
    fn sizes_in_mebibytes_match_the_manual() {
        let mib =
            |size| LeafSize::all(size, Layout::Bits48).map(move |leaf| leaf.size_bytes(size) >> 10).collect::<Vec<_>>();
        assert_eq!(mib(PageSize::Size4K), [16 << 20, 1 << 20, 32 << 10, 2 << 10, 64, 4]);
        assert_eq!(mib(PageSize::Size16K), [1 << 20, 32 << 10, 2 << 10, 16]);
        assert_eq!(mib(PageSize::Size64K), [16 << 20, 512 << 10, 2 << 10, 64]);
    }

    #[test]
    fn a_bound_allows_groups_only_if_it_is_one() {
        let bound = |bound: LeafSize| {
            LeafSize::all(PageSize::Size4K, Layout::Bits48).filter(|leaf| bound.allows(*leaf)).collect::<Vec<_>>()
        };
        let [page, block, huge] = [Level::L3, Level::L2, Level::L1].map(LeafSize::single);
        let [pages, blocks, huges] = [Level::L3, Level::L2, Level::L1].map(LeafSize::group);
        assert_eq!(bound(LeafSize::LARGEST), [huges, huge, blocks, block, pages, page]);
        assert_eq!(bound(blocks), [blocks, block, pages, page]);
        assert_eq!(bound(block), [block, page]);
        assert_eq!(bound(pages), [pages, page]);
        assert_eq!(bound(page), [page]);
        for (one, other) in [(huge, pages), (blocks, huge), (LeafSize::LARGEST, block), (pages, block)] {
            let both = bound(one).into_iter().filter(|leaf| other.allows(*leaf)).collect::<Vec<_>>();
            assert_eq!(bound(one.and(other)), both, "{one} and {other}");
        }
    }
}
