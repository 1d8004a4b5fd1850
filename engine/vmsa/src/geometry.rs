//! The shape of a page table: how many input bits, where lookup starts, how wide the root is.

use core::fmt;
use core::marker::PhantomData;

use crate::{Granule, Layout, Level, PageSize};

/// Which part of the 64-bit input space a page table translates (D8.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AddressHalf {
    /// Addresses whose upper bits are zeros: TTBR0, EL2, stage 2.
    Lower,
    /// Addresses whose upper bits are ones: TTBR1.
    Upper,
}

/// The shape of a page table. The granule is a type; what boot learns is values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry<G: Granule> {
    input_bits: u8,
    start: Level,
    layout: Layout,
    half: AddressHalf,
    /// The lowest address of the half: offsets count from here.
    base: u64,
    granule: PhantomData<G>,
}

/// Why a shape cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeometryError {
    /// Input bits below 25, or above what the granule and layout can translate: `largest`.
    InputBits {
        /// What was asked for.
        asked: u32,
        /// The most input bits of this granule and layout.
        largest: u32,
    },
    /// The layout is not one of this granule: LPA is for 64 KiB, LPA2 for 4 KiB and 16 KiB.
    Layout(PageSize, Layout),
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InputBits { asked, largest } => write!(f, "{asked} input bits, expected 25 to {largest}"),
            Self::Layout(size, layout) => write!(f, "{layout:?} descriptors with {size} pages, which have none"),
        }
    }
}

impl core::error::Error for GeometryError {}

/// The fewest input bits of any stage 1 without FEAT_TTST (TCR_ELx.TnSZ = 39, D8.2.9).
const LEAST_INPUT_BITS: u32 = 25;

impl<G: Granule> Geometry<G> {
    /// The shape that translates `input_bits` bits of input address.
    ///
    /// More than 48 bits need LPA2 descriptors at 4 KiB and 16 KiB, and FEAT_LVA at 64 KiB, which the caller has checked.
    ///
    /// ```
    /// use vmsa::{AddressHalf, Geometry, GeometryError, Granule4K, Layout, Level};
    ///
    /// let kernel = Geometry::<Granule4K>::new(48, Layout::Bits48, AddressHalf::Upper)?;
    /// assert_eq!((kernel.start(), kernel.base()), (Level::L0, 0xffff_0000_0000_0000));
    /// let wide = Geometry::<Granule4K>::new(52, Layout::Bits48, AddressHalf::Upper);
    /// assert_eq!(wide, Err(GeometryError::InputBits { asked: 52, largest: 48 }));
    /// # Ok::<(), GeometryError>(())
    /// ```
    pub const fn new(input_bits: u32, layout: Layout, half: AddressHalf) -> Result<Self, GeometryError> {
        let is_64k = matches!(G::PAGE_SIZE, PageSize::Size64K);
        let largest = match layout {
            Layout::Bits48 if !is_64k => 48,
            Layout::Lpa if !is_64k => return Err(GeometryError::Layout(G::PAGE_SIZE, layout)),
            Layout::Lpa2 if is_64k => return Err(GeometryError::Layout(G::PAGE_SIZE, layout)),
            _ => 52,
        };
        if input_bits < LEAST_INPUT_BITS || input_bits > largest {
            return Err(GeometryError::InputBits { asked: input_bits, largest });
        }
        let levels = (input_bits - G::SHIFT).div_ceil(G::INDEX_BITS);
        let Some(start) = Level::new(4 - levels as i8) else {
            return Err(GeometryError::InputBits { asked: input_bits, largest });
        };
        let base = match half {
            AddressHalf::Lower => 0,
            AddressHalf::Upper => !0 << input_bits,
        };
        Ok(Self { input_bits: input_bits as u8, start, layout, half, base, granule: PhantomData })
    }

    /// Bits of input address that are translated: 64 − TnSZ.
    pub const fn input_bits(self) -> u32 {
        self.input_bits as u32
    }

    /// The level of the root table.
    pub const fn start(self) -> Level {
        self.start
    }

    /// How descriptors hold their output address.
    pub const fn layout(self) -> Layout {
        self.layout
    }

    /// The half of the input space that is translated.
    pub const fn half(self) -> AddressHalf {
        self.half
    }

    /// Bytes of input space: every offset is below this.
    pub const fn input_bytes(self) -> u64 {
        1 << self.input_bits
    }

    /// Descriptors in the root table.
    pub const fn root_entries(self) -> usize {
        1 << (self.input_bits as u32 - Self::shift(self.start))
    }

    /// Descriptors in a table of `level`: the root's may be fewer than a whole table's.
    pub const fn entries(self, level: Level) -> usize {
        if level.number() == self.start.number() { self.root_entries() } else { G::ENTRIES }
    }

    /// log2 of the bytes that one descriptor of `level` covers.
    pub const fn shift(level: Level) -> u32 {
        G::SHIFT + level.below() * G::INDEX_BITS
    }

    /// The lowest address of the half.
    pub const fn base(self) -> u64 {
        self.base
    }

    /// How far into the input space an address is, or `None` if it is not in it.
    pub const fn offset(self, input: u64) -> Option<u64> {
        let offset = input.wrapping_sub(self.base());
        if offset < self.input_bytes() { Some(offset) } else { None }
    }

    /// The offsets of a range of addresses. An end of 0 after a start that is not 0 means 2^64, the end of the upper
    /// half. `None` if any of it is outside, or the end lies before the start.
    pub const fn offsets(self, start: u64, end: u64) -> Option<(u64, u64)> {
        let first = start.wrapping_sub(self.base());
        let last = end.wrapping_sub(self.base());
        if first <= last && last <= self.input_bytes() && first < self.input_bytes() {
            Some((first, last))
        } else {
            None
        }
    }

    /// The address that is `offset` into the input space.
    pub const fn input(self, offset: u64) -> u64 {
        self.base().wrapping_add(offset)
    }

    /// The offset where the table of `level` that holds `offset` ends.
    pub const fn table_end(self, level: Level, offset: u64) -> u64 {
        let bytes = (self.entries(level) as u64) << Self::shift(level);
        (offset & !(bytes - 1)) + bytes
    }

    /// The place of `offset` in its table of `level`.
    pub const fn index(self, level: Level, offset: u64) -> usize {
        (offset >> Self::shift(level)) as usize & (G::ENTRIES - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Granule4K, Granule16K, Granule64K};

    fn shape<G: Granule>(bits: u32, layout: Layout) -> (i8, usize) {
        let geometry = Geometry::<G>::new(bits, layout, AddressHalf::Upper).unwrap();
        (geometry.start().number(), geometry.root_entries())
    }

    /// TCR_ELx.TnSZ and the initial lookup level: D8.2.9 and its tables.
    #[test]
    fn start_levels_match_the_manual() {
        assert_eq!(shape::<Granule4K>(39, Layout::Bits48), (1, 512));
        assert_eq!(shape::<Granule4K>(48, Layout::Bits48), (0, 512));
        assert_eq!(shape::<Granule4K>(52, Layout::Lpa2), (-1, 16));
        assert_eq!(shape::<Granule16K>(36, Layout::Bits48), (2, 2048));
        assert_eq!(shape::<Granule16K>(47, Layout::Bits48), (1, 2048));
        assert_eq!(shape::<Granule16K>(48, Layout::Bits48), (0, 2));
        assert_eq!(shape::<Granule16K>(52, Layout::Lpa2), (0, 32));
        assert_eq!(shape::<Granule64K>(42, Layout::Bits48), (2, 8192));
        assert_eq!(shape::<Granule64K>(48, Layout::Bits48), (1, 64));
        assert_eq!(shape::<Granule64K>(52, Layout::Lpa), (1, 1024));
    }

    #[test]
    fn every_width_has_a_root_that_covers_it_exactly() {
        fn check<G: Granule>(layout: Layout, largest: u32) {
            for bits in 25..=largest {
                let geometry = Geometry::<G>::new(bits, layout, AddressHalf::Lower).unwrap();
                let covered = (geometry.root_entries() as u64) << Geometry::<G>::shift(geometry.start());
                assert_eq!(covered, geometry.input_bytes());
                assert!((2..=G::ENTRIES).contains(&geometry.root_entries()));
            }
            let error = Geometry::<G>::new(largest + 1, layout, AddressHalf::Lower).unwrap_err();
            assert_eq!(error, GeometryError::InputBits { asked: largest + 1, largest });
        }
        check::<Granule4K>(Layout::Bits48, 48);
        check::<Granule4K>(Layout::Lpa2, 52);
        check::<Granule16K>(Layout::Bits48, 48);
        check::<Granule16K>(Layout::Lpa2, 52);
        check::<Granule64K>(Layout::Bits48, 52);
        check::<Granule64K>(Layout::Lpa, 52);
    }

    #[test]
    fn layouts_belong_to_granules() {
        assert!(Geometry::<Granule4K>::new(48, Layout::Lpa, AddressHalf::Lower).is_err());
        assert!(Geometry::<Granule64K>::new(48, Layout::Lpa2, AddressHalf::Lower).is_err());
        assert!(Geometry::<Granule16K>::new(24, Layout::Bits48, AddressHalf::Lower).is_err());
    }

    #[test]
    fn offsets_cover_the_half_to_its_last_byte() {
        let upper = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Upper).unwrap();
        assert_eq!(upper.base(), 0xffff_ff80_0000_0000);
        assert_eq!(upper.offset(0xffff_ff80_0000_1000), Some(0x1000));
        assert_eq!(upper.offset(0xffff_ff7f_ffff_f000), None);
        assert_eq!(upper.offsets(0xffff_ffff_ffff_f000, 0), Some((0x7f_ffff_f000, 0x80_0000_0000)));
        assert_eq!(upper.offsets(0xffff_ffff_ffff_f000, 0x1000), None);
        let lower = Geometry::<Granule4K>::new(39, Layout::Bits48, AddressHalf::Lower).unwrap();
        assert_eq!(lower.offsets(0, 0x80_0000_0000), Some((0, 0x80_0000_0000)));
        assert_eq!(lower.offsets(0, 0x80_0000_1000), None);
        assert_eq!(lower.offsets(0x2000, 0x1000), None);
        assert_eq!(lower.offsets(0x80_0000_0000, 0x80_0000_0000), None);
        assert_eq!(lower.index(Level::L1, 0x7f_ffff_ffff), 511);
        assert_eq!(lower.index(Level::L3, 0x20_3000), 3);
    }
}
