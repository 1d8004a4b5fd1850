//! Which TLB entries must go, and the TLBIs that make them go.
//!
//! Cost model: one TLBI by address costs one broadcast, and so does one by range; forgetting everything costs refilling
//! every TLB, which is taken to be worth [`MOST_TLBIS`] broadcasts, be they of one range or of many in one gather. A leaf needs one TLBI by address, a contiguous group
//! one for each of its descriptors.

use vmsa::maintenance::{LevelHint, RangeOperand};
use vmsa::{Granule, Layout, Level};

/// More TLBIs than this, and forgetting everything is cheaper.
pub(crate) const MOST_TLBIS: usize = 512;

/// Whether walk-cache entries must go too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Depth {
    /// Leaves alone.
    LastLevel,
    /// Leaves and the tables on the way to them: where a table was unlinked.
    AllLevels,
}

/// What the TLB maintenance instructions of *every* CPU of the system can do. The default is nothing, which is right for
/// all but CPUs that must repeat.
///
/// A range costs a TLBI for each leaf, or a few by range; where that would be more than 512, refilling every TLB is taken to be
/// cheaper, and everything of the ASID or regime is forgotten. Of many ranges that are scattered in one [`crate::Gather`] each takes
/// its own, and every eight a round of barriers. After 512 TLBIs, and from the start for a list of more than 512 changes, one TLBI of
/// everything takes their place, when the gather is finished, or before it meets again what it has yet to forget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TlbFeatures {
    /// TLBIs by range (FEAT_TLBIRANGE): [`vmsa::IdRegisters::has_range_invalidation`].
    pub range: bool,
    /// Level hints (FEAT_TTL): [`vmsa::IdRegisters::has_level_hints`].
    pub level_hints: bool,
    /// Every TLBI and its DSB must be issued twice (CVE-2025-10263): [`vmsa::Midr::must_repeat_tlbi`] of *any* CPU.
    pub repeat: bool,
}

impl TlbFeatures {
    /// What every CPU can do that need not repeat.
    pub const NONE: Self = Self { range: false, level_hints: false, repeat: false };
}

/// A range of input addresses whose translations changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalidation {
    /// The first address.
    pub start: u64,
    /// Bytes; a multiple of what one descriptor of `stride` covers.
    pub bytes: u64,
    /// The level of the smallest leaf that stood there.
    pub stride: Level,
    /// Whether every leaf stood at `stride`, so that it may serve as level hint.
    pub is_uniform: bool,
    /// Which entries must go.
    pub depth: Depth,
}

/// One TLBI that an [`Invalidation`] is made of, without its regime.
pub(crate) enum Invalidate {
    /// By address, with a level hint.
    Address(u64, LevelHint),
    /// By range: the operand without its ASID.
    Range(u64),
    /// Everything of the regime or ASID.
    Everything,
}

impl Invalidation {
    /// That of one page, which TLBs hold as one.
    #[inline(always)]
    pub(crate) const fn page<G: Granule>(start: u64) -> Self {
        Self { start, bytes: G::SIZE_BYTES, stride: Level::L3, is_uniform: true, depth: Depth::LastLevel }
    }

    /// That of the whole input space, from `base`: of more than any range of TLBIs is worth.
    pub(crate) const fn everything(base: u64) -> Self {
        Self { start: base, bytes: u64::MAX, stride: Level::L3, is_uniform: false, depth: Depth::AllLevels }
    }

    /// Takes in the next invalidation, if both are one.
    pub(crate) fn absorb(&mut self, next: &Self) -> bool {
        let is_one = self.is_continued_by(next);
        if is_one {
            self.bytes += next.bytes;
        }
        is_one
    }

    /// Whether one invalidation forgets what this one and the next forget. It can say each thing once, for all of it: where
    /// one TLBI by address stands from the next (`stride`, or leaves in between stay), that a level hint finds every leaf
    /// (`is_uniform`, or those of another size stay), and that tables go too (`depth`, or they stay). And it covers what lies
    /// between its ends, so that the next begins where this one ends.
    fn is_continued_by(&self, next: &Self) -> bool {
        let Self { start, bytes, stride, is_uniform, depth } = *self;
        start.wrapping_add(bytes) == next.start
            && stride == next.stride
            && is_uniform == next.is_uniform
            && depth == next.depth
    }

    /// Gives `sink` the TLBIs, in order.
    #[inline(always)]
    pub(crate) fn for_each<G: Granule>(
        &self,
        layout: Layout,
        features: TlbFeatures,
        sink: &mut impl FnMut(Invalidate),
    ) {
        let leaf_bytes = 1 << G::PAGE_SIZE.level_shift(self.stride);
        let hint = if self.is_uniform && features.level_hints {
            LevelHint::leaf(G::PAGE_SIZE, layout, self.stride)
        } else {
            LevelHint::NONE
        };
        if self.bytes == leaf_bytes {
            return sink(Invalidate::Address(self.start, hint));
        }
        self.for_each_of_many::<G>(layout, features, hint, sink);
    }

    #[inline(never)]
    fn for_each_of_many<G: Granule>(
        self,
        layout: Layout,
        features: TlbFeatures,
        hint: LevelHint,
        sink: &mut impl FnMut(Invalidate),
    ) {
        let leaf_shift = G::PAGE_SIZE.level_shift(self.stride);
        let leaf_bytes = 1 << leaf_shift;
        let is_long = self.bytes >> leaf_shift > MOST_TLBIS as u64;
        if is_long && (!features.range || self.bytes >> G::SHIFT > MOST_TLBIS as u64 * RangeOperand::MOST_PAGES) {
            return sink(Invalidate::Everything);
        }
        let level = (hint != LevelHint::NONE).then_some(self.stride);
        let mut done = 0;
        while done < self.bytes {
            let address = self.start.wrapping_add(done);
            let left = self.bytes - done;
            let range = RangeOperand::largest::<G>(layout, address, left >> G::SHIFT);
            // A range that covers one leaf says no more than a TLBI by address does.
            match range.filter(|range| features.range && range.pages() << G::SHIFT > leaf_bytes) {
                Some(range) => {
                    sink(Invalidate::Range(range.encode::<G>(layout, 0, level, address)));
                    // Whole leaves: as of those, and of the steps in which ranges grow, one is a multiple of the other.
                    done += range.pages() << G::SHIFT;
                }
                None => {
                    sink(Invalidate::Address(address, hint));
                    done += leaf_bytes;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vmsa::Granule4K;

    use super::*;

    const PAGES: Invalidation = Invalidation {
        start: 0xffff_8000_0000_0000,
        bytes: 0x20_0000,
        stride: Level::L3,
        is_uniform: true,
        depth: Depth::LastLevel,
    };
    const NEXT: Invalidation = Invalidation { start: PAGES.start + PAGES.bytes, ..PAGES };

    /// What becomes of [`PAGES`] when `next` comes, if both are one.
    fn absorbed(next: Invalidation) -> Option<Invalidation> {
        let mut pages = PAGES;
        pages.absorb(&next).then_some(pages)
    }

    #[test]
    fn neighbours_that_are_alike_are_one() {
        assert_eq!(absorbed(NEXT), Some(Invalidation { bytes: 2 * PAGES.bytes, ..PAGES }));
    }

    #[test]
    fn what_lies_apart_or_before_stays_apart() {
        let apart = Invalidation { start: NEXT.start + 0x1000, ..NEXT };
        let before = Invalidation { start: PAGES.start - PAGES.bytes, ..NEXT };
        let again = PAGES;
        assert_eq!([apart, before, again].map(absorbed), [None; 3]);
    }

    #[test]
    fn a_block_beside_pages_stays_apart() {
        assert_eq!(absorbed(Invalidation { stride: Level::L2, ..NEXT }), None);
    }

    #[test]
    fn leaves_that_no_hint_finds_beside_those_that_one_does_stay_apart() {
        assert_eq!(absorbed(Invalidation { is_uniform: false, ..NEXT }), None);
    }

    #[test]
    fn tables_beside_leaves_stay_apart() {
        assert_eq!(absorbed(Invalidation { depth: Depth::AllLevels, ..NEXT }), None);
    }

    /// How many TLBIs by address and by range `what` takes; `None` if everything is forgotten.
    fn issued(what: Invalidation, features: TlbFeatures) -> Option<[usize; 2]> {
        let mut issued = Some([0, 0]);
        what.for_each::<Granule4K>(Layout::Bits48, features, &mut |one| match one {
            Invalidate::Address(..) => issued.as_mut().unwrap()[0] += 1,
            Invalidate::Range(_) => issued.as_mut().unwrap()[1] += 1,
            Invalidate::Everything => issued = None,
        });
        issued
    }

    /// By range as many TLBIs are worth it as one by one: of 2^21 pages each.
    #[test]
    fn so_many_ranges_are_forgotten_one_by_one() {
        let ranges = TlbFeatures { range: true, ..TlbFeatures::NONE };
        let pages = |count: u64| Invalidation { bytes: count << 12, ..PAGES };
        assert_eq!(issued(pages(512), TlbFeatures::NONE), Some([512, 0]));
        assert_eq!(issued(pages(513), TlbFeatures::NONE), None);
        assert_eq!(issued(pages(1), ranges), Some([1, 0]));
        assert_eq!(issued(pages((1 << 30) - 1), ranges).map(|[_, ranges]| ranges > 511), Some(true));
        assert_eq!(issued(pages(1 << 30), ranges), Some([0, 512]));
        assert_eq!(issued(pages((1 << 30) + 1), ranges), None);
        assert_eq!(issued(Invalidation::everything(0), ranges), None);
    }

    /// A range is of whole leaves, however many, so that the next begins where a leaf does.
    #[test]
    fn ranges_end_where_leaves_do() {
        let ranges = TlbFeatures { range: true, ..TlbFeatures::NONE };
        for (stride, shift) in [(Level::L2, 21), (Level::L1, 30)] {
            for count in 1..=600 {
                let what = Invalidation { start: 0, bytes: count << shift, stride, ..PAGES };
                let mut at = 0;
                what.for_each::<Granule4K>(Layout::Bits48, ranges, &mut |one| match one {
                    Invalidate::Address(address, _) => (assert_eq!(address, at), at += 1 << shift).1,
                    Invalidate::Range(operand) => {
                        assert_eq!((operand & ((1 << 37) - 1)) << 12, at);
                        at += ((operand >> 39 & 31) + 1) << (5 * (operand >> 44 & 3) + 1) << 12;
                        assert_eq!(at & ((1 << shift) - 1), 0, "{count} leaves of {stride}");
                    }
                    Invalidate::Everything => panic!("{count} leaves of {stride}"),
                });
                assert_eq!(at, what.bytes);
            }
        }
    }
}
