//! Descriptors: what kind they are, and what they lead to. Stage 1 and stage 2 differ only in what the attributes mean (D8.3).

use crate::fields::STAGE1_LEAF;
use crate::layout::bits;
use crate::{Bits, DESCRIPTOR_BYTES, Layout, Level, PageSize, PhysAddr};

impl Layout {
    /// The output address, aligned to `1 << shift`, in a descriptor.
    #[inline(always)]
    pub const fn output(self, descriptor: Descriptor, shift: u32) -> PhysAddr {
        let raw = descriptor.0;
        let output = match self {
            Self::Bits48 => raw & bits(47, shift),
            Self::Lpa => (raw & bits(47, shift)) | (raw >> 12 & 0xf) << 48,
            Self::Lpa2 => (raw & bits(49, shift)) | (raw >> 8 & 0b11) << 50,
        };
        PhysAddr::new(output as u64)
    }

    /// The bits of a leaf at `level` that are attributes: all but the type, the output address and the Contiguous bit.
    #[inline]
    pub const fn attribute_mask(self, size: PageSize, level: Level) -> Bits {
        !(self.output_mask(size.level_shift(level)) | Descriptor::TYPE | Descriptor::CONTIGUOUS)
    }

    /// The bits of a table descriptor that are attributes.
    pub const fn table_attribute_mask(self, size: PageSize) -> Bits {
        !(self.output_mask(size.shift()) | Descriptor::TYPE)
    }
}

/// One 64-bit descriptor, as it stands in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Descriptor(Bits);

/// What kind of descriptor it is at its level, and where it leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Bit 0 is clear: a translation fault, whatever the other bits say.
    Invalid,
    /// Bit 0 is set, but the level has no such type: a translation fault (D8.3.1, reserved encodings).
    Reserved,
    /// The address of the next table.
    Table(PhysAddr),
    /// A block or page that leads to this address; the flag is its Contiguous bit.
    Leaf(PhysAddr, bool),
}

impl Descriptor {
    /// All zeros.
    pub const INVALID: Self = Self(0);
    /// Bit 0: the descriptor is valid.
    pub const VALID: Bits = 1;
    /// Bits 1:0, which make up the type.
    pub const TYPE: Bits = STAGE1_LEAF.the("Type").mask();
    /// Bit 52 of a leaf: one of a contiguous group (D8.7.1).
    pub const CONTIGUOUS: Bits = STAGE1_LEAF.the("Contiguous").mask();
    /// Bit 16 of a block: do not cache the translation (nT, FEAT_BBM level 1, D8.7.3).
    pub const NT: Bits = STAGE1_LEAF.the("nT").mask();

    /// The descriptor with these bits.
    pub const fn new(bits: Bits) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> Bits {
        self.0
    }

    /// The descriptor that stands in memory as these bytes, seen by a walker that reads little-endian (SCTLR_ELx.EE = 0).
    pub const fn from_le_bytes(bytes: [u8; DESCRIPTOR_BYTES]) -> Self {
        Self(Bits::from_le_bytes(bytes))
    }

    /// The descriptor that stands in memory as these bytes, seen by a walker that reads big-endian (SCTLR_ELx.EE = 1).
    pub const fn from_be_bytes(bytes: [u8; DESCRIPTOR_BYTES]) -> Self {
        Self(Bits::from_be_bytes(bytes))
    }

    /// A table descriptor that leads to `next` and carries `attributes` (bits of [`Layout::table_attribute_mask`]).
    #[inline(always)]
    pub const fn table(layout: Layout, next: PhysAddr, attributes: Bits) -> Self {
        Self(layout.encode_output(next) | attributes | 0b11)
    }

    /// A leaf of `level` that leads to `to` and carries `attributes` (bits of [`Layout::attribute_mask`]).
    #[inline(always)]
    pub const fn leaf(layout: Layout, level: Level, to: PhysAddr, attributes: Bits) -> Self {
        let kind = if level.number() == Level::L3.number() { 0b11 } else { 0b01 };
        Self(layout.encode_output(to) | attributes | kind)
    }

    /// An invalid descriptor that holds the address of a page: hardware ignores all of it, software may use it as it likes.
    #[inline(always)]
    pub const fn note(page: PhysAddr) -> Self {
        Self(page.bits() as Bits & !Self::VALID)
    }

    /// The address in a descriptor that [`Self::note`] made.
    #[inline(always)]
    #[expect(clippy::unnecessary_cast, reason = "Bits may be wider")]
    pub const fn noted(self) -> PhysAddr {
        PhysAddr::new((self.0 & !Self::VALID) as u64)
    }

    /// Whether bit 0 is set.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.0 & Self::VALID != 0
    }

    /// Whether it is a valid table descriptor of `level`.
    #[inline(always)]
    pub const fn is_table(self, level: Level) -> bool {
        self.0 & Self::TYPE == 0b11 && level.number() != Level::L3.number()
    }

    /// The Contiguous bit, which counts in leaves alone.
    #[inline(always)]
    pub const fn is_contiguous(self) -> bool {
        self.0 & Self::CONTIGUOUS != 0
    }

    /// What the descriptor says at `level`.
    #[inline(always)]
    pub const fn meaning(self, size: PageSize, layout: Layout, level: Level) -> Meaning {
        if !self.is_valid() {
            Meaning::Invalid
        } else if self.is_table(level) {
            Meaning::Table(layout.output(self, size.shift()))
        } else if size.has_leaf(level, layout) && (level.number() != 3 || self.0 & Self::TYPE == 0b11) {
            Meaning::Leaf(layout.output(self, size.level_shift(level)), self.is_contiguous())
        } else {
            Meaning::Reserved
        }
    }
}

impl core::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts(size: PageSize) -> &'static [Layout] {
        match size {
            PageSize::Size64K => &[Layout::Bits48, Layout::Lpa],
            _ => &[Layout::Bits48, Layout::Lpa2],
        }
    }

    /// Every granule × layout × level × single output bit: what goes in comes out, and touches no attribute.
    #[test]
    fn every_output_bit_survives_and_stays_in_its_mask() {
        for size in PageSize::ALL {
            for &layout in layouts(size) {
                for level in Level::ALL.into_iter().filter(|&level| size.has_leaf(level, layout)) {
                    let shift = size.level_shift(level);
                    for bit in shift..layout.output_bits() {
                        let to = PhysAddr::new(1 << bit);
                        let leaf = Descriptor::leaf(layout, level, to, 0);
                        assert_eq!(
                            leaf.meaning(size, layout, level),
                            Meaning::Leaf(to, false),
                            "{size} {layout:?} {bit}"
                        );
                        assert_eq!(leaf.bits() & layout.attribute_mask(size, level), 0);
                    }
                    let all = Descriptor::leaf(layout, level, PhysAddr::new(0), layout.attribute_mask(size, level));
                    assert_eq!(layout.output(all, shift), PhysAddr::new(0), "attributes leak into the output address");
                }
                for bit in size.shift()..layout.output_bits() {
                    let next = PhysAddr::new(1 << bit);
                    let table = Descriptor::table(layout, next, 0);
                    assert_eq!(table.meaning(size, layout, Level::L2), Meaning::Table(next));
                    assert_eq!(table.bits() & layout.table_attribute_mask(size), 0);
                }
            }
        }
    }

    /// The four type encodings at each level: D8.3.1.
    #[test]
    fn types_match_the_manual() {
        let meaning = |kind, size: PageSize, layout, level| Descriptor::new(kind).meaning(size, layout, level);
        let zero = PhysAddr::new(0);
        for size in PageSize::ALL {
            for &layout in layouts(size) {
                for level in Level::ALL {
                    assert_eq!(meaning(0b00, size, layout, level), Meaning::Invalid);
                    assert_eq!(meaning(0b10, size, layout, level), Meaning::Invalid);
                    let is_page = level == Level::L3;
                    let expected = if is_page { Meaning::Leaf(zero, false) } else { Meaning::Table(zero) };
                    assert_eq!(meaning(0b11, size, layout, level), expected);
                    let is_block = !is_page && size.has_leaf(level, layout);
                    let expected = if is_block { Meaning::Leaf(zero, false) } else { Meaning::Reserved };
                    assert_eq!(meaning(0b01, size, layout, level), expected, "{size} {layout:?} {level}");
                }
            }
        }
    }

    /// Hand-made examples of each layout.
    #[test]
    fn high_bits_stand_where_the_manual_puts_them() {
        let to = PhysAddr::new(0x000a_1234_0000_0000);
        assert_eq!(Descriptor::leaf(Layout::Lpa, Level::L3, to, 0).bits(), 0x0000_1234_0000_a003);
        let to = PhysAddr::new(0x000e_1234_0000_4000);
        assert_eq!(Descriptor::leaf(Layout::Lpa2, Level::L3, to, 0).bits(), 0x0002_1234_0000_4303);
        assert_eq!(Layout::Lpa2.attribute_mask(PageSize::Size4K, Level::L3), 0xffec_0000_0000_0cfc);
        assert_eq!(Layout::Bits48.attribute_mask(PageSize::Size4K, Level::L3), 0xffef_0000_0000_0ffc);
        assert_eq!(Layout::Bits48.attribute_mask(PageSize::Size4K, Level::L2), 0xffef_0000_001f_fffc);
        assert_eq!(Layout::Lpa.attribute_mask(PageSize::Size64K, Level::L2), 0xffef_0000_1fff_0ffc);
    }

    /// Each bit of an address has its own place in a descriptor, or none, and each place that of one bit.
    #[test]
    fn an_address_touches_its_own_bits_alone() {
        assert_eq!([Layout::Bits48, Layout::Lpa, Layout::Lpa2].map(Layout::output_bits), [48, 52, 52]);
        for (layout, shift) in [(Layout::Bits48, 12), (Layout::Lpa, 16), (Layout::Lpa2, 12)] {
            let mask = layout.output_mask(shift);
            let encoded = |bit: u32| layout.encode_output(PhysAddr::new(1 << bit));
            let places = (shift..layout.output_bits()).fold(0, |places, bit| {
                assert_eq!((encoded(bit).count_ones(), encoded(bit) & places), (1, 0), "{layout:?} {bit}");
                places | encoded(bit)
            });
            assert_eq!(places, mask, "{layout:?}");
            let others = (0..shift).chain(layout.output_bits()..64);
            assert_eq!(others.fold(0, |places, bit| places | encoded(bit)), 0, "{layout:?}");
            for bit in 0..64 {
                let output = layout.output(Descriptor::new(1 << bit), shift);
                assert_eq!(layout.encode_output(output), mask & 1 << bit, "{layout:?} {bit}");
            }
        }
    }

    /// A list of tables is threaded through notes, which no walker follows.
    #[test]
    fn a_note_is_invalid_and_holds_its_page() {
        let page = PhysAddr::new(0x000f_ffff_ffff_f000);
        assert_eq!(Descriptor::note(page).noted(), page);
        assert_eq!(Descriptor::note(page + 1), Descriptor::note(page));
        assert!(!Descriptor::note(page + 1).is_valid());
        assert_eq!(Descriptor::new(0x1001).noted(), PhysAddr::new(0x1000));
    }
}
