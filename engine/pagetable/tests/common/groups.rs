//! What contiguous groups must be.

use vellum_vmsa::{Descriptor, Granule, Level, PhysAddr};

use super::regimes::Drawn;

/// Every group among these leaves (input, log2 of bytes, level, descriptor, output) is whole, aligned and uniform but for marks.
pub(crate) fn check_groups<G: Granule, R: Drawn>(regime: R, leaves: &[(u64, u32, Level, Descriptor, PhysAddr)]) {
    let mut index = 0;
    while let Some((input, shift, level, first, to)) = leaves.get(index) {
        let Some(group) = G::PAGE_SIZE.contiguous_shift(*level).filter(|_| first.is_contiguous()) else {
            index += 1;
            continue;
        };
        let bytes = 1u64 << (group + shift);
        assert!(input & (bytes - 1) == 0 && to.is_aligned(bytes), "a group is aligned in both addresses");
        for member in 0..1 << group {
            let (_, _, level_of, descriptor, leads) = leaves[index + member];
            assert_eq!((level_of, leads), (*level, *to + ((member as u64) << shift)), "a group leads to neighbours");
            let beside = (descriptor.bits() ^ first.bits()) & !regime.marks(first.bits());
            assert_eq!(beside, to.bits() ^ leads.bits(), "a group is uniform");
        }
        index += 1 << group;
    }
}
