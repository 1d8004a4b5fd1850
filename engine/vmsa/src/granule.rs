//! Translation granules: the size of a page and of a table. Every number of a granule follows from its shift.
//!
//! [`PageSize`] names a granule at run time; [`Granule`] makes it a type, so that code compiled for one granule has its
//! numbers as constants.

use core::fmt;

use crate::{DESCRIPTOR_SHIFT, Layout, Level};

/// A translation granule as a value (D8.1.8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PageSize {
    /// 4 KiB pages and tables.
    Size4K,
    /// 16 KiB pages and tables.
    Size16K,
    /// 64 KiB pages and tables.
    Size64K,
}

impl PageSize {
    /// Every granule, from the smallest.
    pub const ALL: [Self; 3] = [Self::Size4K, Self::Size16K, Self::Size64K];

    /// log2 of the bytes in a page.
    pub const fn shift(self) -> u32 {
        match self {
            Self::Size4K => 12,
            Self::Size16K => 14,
            Self::Size64K => 16,
        }
    }

    /// Bytes in a page, and in a whole table.
    pub const fn size_bytes(self) -> u64 {
        1 << self.shift()
    }

    /// Input-address bits that one level resolves.
    pub const fn index_bits(self) -> u32 {
        self.shift() - DESCRIPTOR_SHIFT
    }

    /// Descriptors in a whole table.
    pub const fn entries(self) -> usize {
        1 << self.index_bits()
    }

    /// log2 of the bytes that one descriptor of `level` covers.
    pub const fn level_shift(self, level: Level) -> u32 {
        self.shift() + level.below() * self.index_bits()
    }

    /// The highest level that a root may stand at: what a layout's input addresses take at the most (D8.2.8).
    pub const fn highest_root(self, layout: Layout) -> Level {
        match (self, layout) {
            (Self::Size4K, Layout::Lpa2) => Level::MINUS_1,
            (Self::Size4K | Self::Size16K, _) => Level::L0,
            (Self::Size64K, _) => Level::L1,
        }
    }

    /// Whether a leaf may stand at `level`: pages at level 3, blocks where the granule and the layout have them
    /// (D8.3.1, tables of block sizes).
    pub const fn has_leaf(self, level: Level, layout: Layout) -> bool {
        match (self, level.number()) {
            (_, 3 | 2) | (Self::Size4K, 1) => true,
            (Self::Size16K, 1) | (Self::Size4K, 0) => matches!(layout, Layout::Lpa2),
            (Self::Size64K, 1) => matches!(layout, Layout::Lpa),
            _ => false,
        }
    }

    /// log2 of the descriptors in a contiguous group at `level`, or `None` where the granule has no such group (D8.7.1).
    pub const fn contiguous_shift(self, level: Level) -> Option<u32> {
        match (self, level.number()) {
            (Self::Size4K, 1..=3) => Some(4),
            (Self::Size16K, 3) => Some(7),
            (Self::Size16K, 2) | (Self::Size64K, 2 | 3) => Some(5),
            _ => None,
        }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Size4K => "4K",
            Self::Size16K => "16K",
            Self::Size64K => "64K",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A translation granule as a type. Its constants are those of [`Granule::PAGE_SIZE`].
pub trait Granule: sealed::Sealed + Copy + Eq + fmt::Debug + 'static {
    /// The granule as a value.
    const PAGE_SIZE: PageSize;
    /// log2 of the bytes in a page.
    const SHIFT: u32 = Self::PAGE_SIZE.shift();
    /// Bytes in a page, and in a whole table.
    const SIZE_BYTES: u64 = Self::PAGE_SIZE.size_bytes();
    /// Input-address bits that one level resolves.
    const INDEX_BITS: u32 = Self::PAGE_SIZE.index_bits();
    /// Descriptors in a whole table.
    const ENTRIES: usize = Self::PAGE_SIZE.entries();
}

macro_rules! granule {
    ($(#[$doc:meta])* $name:ident = $size:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name;

        impl sealed::Sealed for $name {}

        impl Granule for $name {
            const PAGE_SIZE: PageSize = PageSize::$size;
        }
    };
}

granule! {
    /// The 4 KiB granule.
    Granule4K = Size4K
}
granule! {
    /// The 16 KiB granule.
    Granule16K = Size16K
}
granule! {
    /// The 64 KiB granule.
    Granule64K = Size64K
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const TIB: u64 = 1 << 40;

    /// (granule, level, bytes of a descriptor there, descriptors of a contiguous group there): D8.3 and D8.7.1.
    const LEAVES: [(PageSize, i8, u64, u32); 11] = [
        (PageSize::Size4K, 3, 4 * KIB, 16),
        (PageSize::Size4K, 2, 2 * MIB, 16),
        (PageSize::Size4K, 1, GIB, 16),
        (PageSize::Size4K, 0, 512 * GIB, 0),
        (PageSize::Size4K, -1, 256 * TIB, 0),
        (PageSize::Size16K, 3, 16 * KIB, 128),
        (PageSize::Size16K, 2, 32 * MIB, 32),
        (PageSize::Size16K, 1, 64 * GIB, 0),
        (PageSize::Size64K, 3, 64 * KIB, 32),
        (PageSize::Size64K, 2, 512 * MIB, 32),
        (PageSize::Size64K, 1, 4 * TIB, 0),
    ];

    #[test]
    fn sizes_match_the_manual() {
        assert_eq!(PageSize::ALL.map(PageSize::entries), [512, 2048, 8192]);
        for (size, number, bytes, group) in LEAVES {
            let level = Level::new(number).unwrap();
            assert_eq!(1u64 << size.level_shift(level), bytes, "{size} {level}");
            assert_eq!(size.contiguous_shift(level).map_or(0, |shift| 1u32 << shift), group, "{size} {level}");
        }
    }

    #[test]
    fn blocks_stand_where_the_layout_has_them() {
        for size in PageSize::ALL {
            for layout in [Layout::Bits48, Layout::Lpa, Layout::Lpa2] {
                let levels: [bool; 5] = core::array::from_fn(|i| size.has_leaf(Level::ALL[i], layout));
                let expected = match (size, layout) {
                    (PageSize::Size4K, Layout::Lpa2) => [false, true, true, true, true],
                    (PageSize::Size4K, _) | (PageSize::Size16K, Layout::Lpa2) | (PageSize::Size64K, Layout::Lpa) => {
                        [false, false, true, true, true]
                    }
                    _ => [false, false, false, true, true],
                };
                assert_eq!(levels, expected, "{size} {layout:?}");
            }
        }
    }
}
