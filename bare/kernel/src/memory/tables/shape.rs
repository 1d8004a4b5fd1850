//! The shape of both halves of a translation, as values, and the registers that say it to a CPU.

use hardware::translation::{SCTLR_MMU_ON, Translation};
use kerncore::choice::Choice;
use vmsa::registers::{MemoryTypes, TranslationControl, decode_ttbr, encode_ttbr};
use vmsa::{AddressHalf, Geometry, GeometryError, Granule, IdRegisters, Layout, PageSize, PhysAddr};

/// Input bits of the lower half: enough for the identity map wherever RAM is below 2^48.
pub(crate) const LOWER_BITS: u32 = 48;

/// What both halves of a translation look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) page_size: PageSize,
    pub(crate) lower_bits: u32,
    pub(crate) upper_bits: u32,
    pub(crate) layout: Layout,
}

impl Shape {
    /// The shape of the kernel's own map, whose lower half has room for so many bytes.
    pub(crate) fn chosen(choice: &Choice, lower_bytes: u64) -> Self {
        let Choice { page_size, virtual_bits, layout, .. } = *choice;
        let lower_bits = if lower_bytes <= 1 << LOWER_BITS { LOWER_BITS } else { virtual_bits };
        Self { page_size, lower_bits, upper_bits: virtual_bits, layout }
    }

    /// The geometry of one half. `G` is the granule of [`Self::page_size`].
    pub(crate) fn geometry<G: Granule>(self, half: AddressHalf) -> Result<Geometry<G>, GeometryError> {
        let bits = match half {
            AddressHalf::Lower => self.lower_bits,
            AddressHalf::Upper => self.upper_bits,
        };
        Geometry::new(bits, self.layout, half)
    }

    /// What to load into a CPU with these ID registers, so that it translates by the tables at these roots. Without an
    /// upper root the upper half is not walked.
    pub(crate) fn translation(self, cpu: &IdRegisters, lower: PhysAddr, upper: Option<PhysAddr>) -> Translation {
        // IPS above what the layout can hold is reserved, and above what the CPU has too (D8.2.6).
        let widest = if self.layout == Layout::Bits48 { 5 } else { 6 };
        let control = TranslationControl {
            lower_bits: self.lower_bits,
            upper_bits: self.upper_bits,
            lower_page_size: self.page_size,
            upper_page_size: self.page_size,
            output_range: cpu.physical_range().min(widest),
            is_lower_off: false,
            is_upper_off: upper.is_none(),
            has_wide_asids: cpu.asid_bits() == 16,
            sets_access_flag: false,
            manages_dirty_state: false,
            is_lpa2: self.layout == Layout::Lpa2,
        };
        Translation {
            mair: MemoryTypes::WITHOUT_TAGS.0,
            tcr: control.encode(),
            ttbr0: encode_ttbr(self.layout, lower, 0, false),
            ttbr1: upper.map_or(0, |root| encode_ttbr(self.layout, root, 0, false)),
            sctlr: SCTLR_MMU_ON,
        }
    }

    /// The shape that a CPU's registers tell, and the root of one half. `None` if they are not what this kernel writes.
    pub(crate) fn of(translation: &Translation, half: AddressHalf) -> Option<(Self, PhysAddr)> {
        let control = TranslationControl::decode(translation.tcr)?;
        let (page_size, ttbr) = match half {
            AddressHalf::Lower => (control.lower_page_size, translation.ttbr0),
            AddressHalf::Upper => (control.upper_page_size, translation.ttbr1),
        };
        let layout = match page_size {
            _ if control.is_lpa2 => Layout::Lpa2,
            PageSize::Size64K if control.output_range == 6 => Layout::Lpa,
            _ => Layout::Bits48,
        };
        let shape = Self { page_size, lower_bits: control.lower_bits, upper_bits: control.upper_bits, layout };
        Some((shape, decode_ttbr(layout, ttbr)))
    }
}
