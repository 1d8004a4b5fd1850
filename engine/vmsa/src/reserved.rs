//! Descriptor bits that the architecture reserves as zero: RES0 in a valid descriptor (D8.3.1).
//!
//! Only bits that no extension of the same layout gives a meaning are listed: bits 50, 51 and 16, which FEAT_BTI,
//! FEAT_HAFDBS and FEAT_BBM use, are not.

use crate::fields::{STAGE1_LEAF, STAGE1_TABLE};
use crate::{Bits, Layout, Level, PageSize};

impl Layout {
    /// The bits that are RES0 in a leaf at `level`.
    pub const fn reserved_in_leaf(self, size: PageSize, level: Level) -> Bits {
        STAGE1_LEAF.reserved(self.output_mask(size.level_shift(level)))
    }

    /// The bits that are RES0 in a table descriptor. Bits 11:2 and 58:52 of it are ignored, not reserved.
    pub const fn reserved_in_table(self, size: PageSize) -> Bits {
        STAGE1_TABLE.reserved(self.output_mask(size.shift()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hand-made from the figures of D8.3.1, granule by granule.
    #[test]
    fn reserved_bits_match_the_manual() {
        let leaves = [
            (PageSize::Size4K, Layout::Bits48, Level::L3, 0x0003_0000_0000_0000),
            (PageSize::Size4K, Layout::Bits48, Level::L2, 0x0003_0000_001e_f000),
            (PageSize::Size4K, Layout::Bits48, Level::L1, 0x0003_0000_3ffe_f000),
            (PageSize::Size4K, Layout::Lpa2, Level::L3, 0),
            (PageSize::Size4K, Layout::Lpa2, Level::L2, 0x0000_0000_001e_f000),
            (PageSize::Size16K, Layout::Bits48, Level::L3, 0x0003_0000_0000_3000),
            (PageSize::Size16K, Layout::Bits48, Level::L2, 0x0003_0000_01fe_f000),
            (PageSize::Size64K, Layout::Bits48, Level::L3, 0x0003_0000_0000_f000),
            (PageSize::Size64K, Layout::Lpa, Level::L3, 0x0003_0000_0000_0000),
            (PageSize::Size64K, Layout::Lpa, Level::L2, 0x0003_0000_1ffe_0000),
        ];
        for (size, layout, level, mask) in leaves {
            assert_eq!(layout.reserved_in_leaf(size, level), mask, "{size} {layout:?} {level}");
        }
        let tables = [
            (PageSize::Size4K, Layout::Bits48, 0x000f_0000_0000_0000),
            (PageSize::Size4K, Layout::Lpa2, 0x000c_0000_0000_0000),
            (PageSize::Size16K, Layout::Bits48, 0x000f_0000_0000_3000),
            (PageSize::Size64K, Layout::Bits48, 0x000f_0000_0000_f000),
            (PageSize::Size64K, Layout::Lpa, 0x000f_0000_0000_0000),
        ];
        for (size, layout, mask) in tables {
            assert_eq!(layout.reserved_in_table(size), mask, "{size} {layout:?}");
        }
    }
}
