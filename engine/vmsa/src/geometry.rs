//! The shape of a page table: how many input bits, where lookup starts, how wide the root is.

use core::fmt;
use core::marker::PhantomData;

use crate::{DESCRIPTOR_SHIFT, Granule, Layout, Level, PageSize};

/// Which part of the 64-bit input space a page table translates (D8.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AddressHalf {
    /// Addresses whose upper bits are zeros: TTBR0, EL2, stage 2.
    Lower,
    /// Addresses whose upper bits are ones: TTBR1.
    Upper,
}

/// Where the root stands of a page table whose descriptors hold 48 bits of output address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Usual {
    /// As high as there is a level for it.
    Highest,
    /// One level below that.
    Below,
    /// Elsewhere, or its descriptors hold more bits.
    No,
}

/// The shape of a page table. The granule is a type; what boot learns is values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry<G: Granule> {
    start: Level,
    layout: Layout,
    half: AddressHalf,
    /// What [`Self::is_usual`] and [`Self::is_usual_below`] say.
    usual: Usual,
    /// The lowest address of the half: offsets count from here.
    base: u64,
    /// Every offset is below this power of two.
    input_bytes: u64,
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
    /// A stage-2 root at this level does not translate that many bits.
    StartLevel {
        /// What was asked for.
        asked: u32,
        /// The level of the root.
        start: Level,
        /// The fewest and the most input bits of a root at that level; `None` if granule and layout have none there.
        translates: Option<(u32, u32)>,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InputBits { asked, largest } => write!(f, "{asked} input bits, expected 25 to {largest}"),
            Self::Layout(size, layout) => write!(f, "{layout:?} descriptors with {size} pages, which have none"),
            Self::StartLevel { asked, start, translates: Some((least, most)) } => {
                write!(f, "{asked} input bits, expected {least} to {most} with a root at {start}")
            }
            Self::StartLevel { start, .. } => write!(f, "a root at {start}, where these pages have none"),
        }
    }
}

impl core::error::Error for GeometryError {}

/// The fewest input bits of any stage 1 without FEAT_TTST (TCR_ELx.TnSZ = 39, D8.2.9).
const LEAST_INPUT_BITS: u32 = 25;
/// log2 of the tables that a stage-2 root may be made of (D8.2.10).
const MOST_CONCATENATED_SHIFT: u32 = 4;

impl<G: Granule> Geometry<G> {
    /// The shape that translates `input_bits` bits of input address.
    ///
    /// More than 48 bits need LPA2 descriptors at 4 KiB and 16 KiB, and FEAT_LVA at 64 KiB, which the caller has checked.
    ///
    /// ```
    /// use vellum_vmsa::{AddressHalf, Geometry, GeometryError, Granule4K, Layout, Level};
    ///
    /// let kernel = Geometry::<Granule4K>::new(48, Layout::Bits48, AddressHalf::Upper)?;
    /// assert_eq!((kernel.start(), kernel.base()), (Level::L0, 0xffff_0000_0000_0000));
    /// let wide = Geometry::<Granule4K>::new(52, Layout::Bits48, AddressHalf::Upper);
    /// assert_eq!(wide, Err(GeometryError::InputBits { asked: 52, largest: 48 }));
    /// # Ok::<(), GeometryError>(())
    /// ```
    pub const fn new(input_bits: u32, layout: Layout, half: AddressHalf) -> Result<Self, GeometryError> {
        let is_wide = matches!(G::PAGE_SIZE, PageSize::Size64K) || !matches!(layout, Layout::Bits48);
        let largest = if is_wide { 52 } else { 48 };
        if let Err(error) = Self::check(input_bits, layout, largest) {
            return Err(error);
        }
        let levels = (input_bits - G::SHIFT).div_ceil(G::INDEX_BITS);
        let Some(start) = Level::new(4 - levels as i8) else {
            return Err(GeometryError::InputBits { asked: input_bits, largest });
        };
        let base = match half {
            AddressHalf::Lower => 0,
            AddressHalf::Upper => !0 << input_bits,
        };
        Ok(Self::of(start, layout, half, base, input_bits))
    }

    /// The shape that translates `input_bits` bits of the lower half, with 48-bit descriptors.
    pub const fn lower(input_bits: u32) -> Result<Self, GeometryError> {
        Self::new(input_bits, Layout::Bits48, AddressHalf::Lower)
    }

    const fn of(start: Level, layout: Layout, half: AddressHalf, base: u64, input_bits: u32) -> Self {
        let highest = G::PAGE_SIZE.highest_root(Layout::Bits48);
        let usual = match start.number() - highest.number() {
            0 if matches!(layout, Layout::Bits48) => Usual::Highest,
            1 if matches!(layout, Layout::Bits48) => Usual::Below,
            _ => Usual::No,
        };
        Self { start, layout, half, usual, base, input_bytes: 1 << input_bits, granule: PhantomData }
    }

    /// The shape of a stage-2 page table that translates `input_bits` bits of intermediate address from a root at `start`:
    /// where a root table would hold no more than 16 descriptors, the level below may hold its tables side by side, as one
    /// *concatenated* root (D8.2.10).
    ///
    /// A root may stand at any level that translates between 1 and 4 bits more than a whole table's, except for what
    /// granules lack: level −1 is for 4 KiB, level 0 for 4 KiB and for 16 KiB, with LPA2 descriptors at 4 KiB level −1 and
    /// 16 KiB level 0. Which of these a CPU has is told by [`crate::IdRegisters::has_stage2_shape`].
    ///
    /// ```
    /// use vellum_vmsa::{Geometry, Granule4K, GeometryError, Layout, Level};
    ///
    /// let guest = Geometry::<Granule4K>::stage2(40, Level::L1, Layout::Bits48)?;
    /// assert_eq!((guest.root_tables(), guest.root_bytes()), (2, 0x2000));
    /// assert_eq!(Geometry::<Granule4K>::stage2(40, Level::L0, Layout::Bits48)?.root_bytes(), 16);
    /// let error = Geometry::<Granule4K>::stage2(44, Level::L1, Layout::Bits48).unwrap_err();
    /// assert_eq!(error.to_string(), "44 input bits, expected 31 to 43 with a root at level 1");
    /// # Ok::<(), GeometryError>(())
    /// ```
    pub const fn stage2(input_bits: u32, start: Level, layout: Layout) -> Result<Self, GeometryError> {
        let largest = if matches!(layout, Layout::Bits48) { 48 } else { 52 };
        if let Err(error) = Self::check(input_bits, layout, largest) {
            return Err(error);
        }
        let has_start = match (G::PAGE_SIZE, start.number()) {
            (PageSize::Size4K, -1) | (PageSize::Size16K, 0) => matches!(layout, Layout::Lpa2),
            (_, -1) | (PageSize::Size64K, 0) => false,
            _ => true,
        };
        let (least, most) = (Self::shift(start) + 1, Self::shift(start) + G::INDEX_BITS + MOST_CONCATENATED_SHIFT);
        if !has_start || input_bits < least || input_bits > most {
            let translates = if has_start { Some((least, if most < largest { most } else { largest })) } else { None };
            return Err(GeometryError::StartLevel { asked: input_bits, start, translates });
        }
        Ok(Self::of(start, layout, AddressHalf::Lower, 0, input_bits))
    }

    /// Whether a stage-2 page table can have this shape.
    pub const fn is_stage2(self) -> bool {
        let is_lower = matches!(self.half, AddressHalf::Lower);
        is_lower && Self::stage2(self.input_bits(), self.start, self.layout).is_ok()
    }

    const fn check(input_bits: u32, layout: Layout, largest: u32) -> Result<(), GeometryError> {
        let is_64k = matches!(G::PAGE_SIZE, PageSize::Size64K);
        match layout {
            Layout::Lpa if !is_64k => Err(GeometryError::Layout(G::PAGE_SIZE, layout)),
            Layout::Lpa2 if is_64k => Err(GeometryError::Layout(G::PAGE_SIZE, layout)),
            _ if input_bits < LEAST_INPUT_BITS || input_bits > largest => {
                Err(GeometryError::InputBits { asked: input_bits, largest })
            }
            _ => Ok(()),
        }
    }

    /// Bits of input address that are translated: 64 − TnSZ.
    pub const fn input_bits(self) -> u32 {
        self.input_bytes.ilog2()
    }

    /// The level of the root table.
    pub const fn start(self) -> Level {
        self.start
    }

    /// Whether descriptors hold 48 bits of output address, and the root stands as high as there is a level for them. Most page
    /// tables do, and a walk that knows it asks for less at each level.
    #[inline(always)]
    pub const fn is_usual(self) -> bool {
        matches!(self.usual, Usual::Highest)
    }

    /// Whether descriptors hold 48 bits of output address, and the root stands one level below the highest: 39 bits at 4 KiB,
    /// 47 at 16 KiB, 42 at 64 KiB, and a stage 2 of 48 bits at 16 KiB.
    #[inline(always)]
    pub const fn is_usual_below(self) -> bool {
        matches!(self.usual, Usual::Below)
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
        self.input_bytes
    }

    /// Descriptors in the root table.
    pub const fn root_entries(self) -> usize {
        (self.input_bytes >> Self::shift(self.start)) as usize
    }

    /// Tables that the root is made of, side by side: more than one in stage 2 alone, 16 at most.
    pub const fn root_tables(self) -> usize {
        self.root_entries().div_ceil(G::ENTRIES)
    }

    /// Bytes of the root's descriptors. Hardware wants it aligned to as many, and to 64 bytes at least where output
    /// addresses have 52 bits.
    pub const fn root_bytes(self) -> u64 {
        (self.root_entries() as u64) << DESCRIPTOR_SHIFT
    }

    /// Descriptors in a table of `level`: the root's may be fewer than a whole table's, or several tables'.
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
        let (first, bytes) = (start.wrapping_sub(self.base()), end.wrapping_sub(start));
        if first < self.input_bytes() && bytes <= self.input_bytes() - first {
            Some((first, first + bytes))
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

    /// The place of `offset` in its table of `level`, or in all of the root.
    pub const fn index(self, level: Level, offset: u64) -> usize {
        (offset >> Self::shift(level)) as usize & (self.entries(level) - 1)
    }

    /// The place of `offset` in its table of `level`, of which a concatenated root is several.
    pub const fn index_in_table(level: Level, offset: u64) -> usize {
        (offset >> Self::shift(level)) as usize & (G::ENTRIES - 1)
    }
}

#[cfg(test)]
mod tests;
