//! Layouts: how wide a descriptor is, and where it keeps an output address.
//!
//! ```text
//!  63      52 51  50 49 48 47                    n     12 11 10 9  8 7     2 1 0
//! | attributes  |  output address [47:n]        | 0 |     attributes       |T V|    48-bit
//! | attributes  |  output address [47:16]       |51:48|   attributes       |T V|    LPA, 64 KiB
//! | attributes  |  output address [49:n]                |51:50|  attributes|T V|    LPA2, 4 and 16 KiB
//! ```
//! This file alone assumes that a descriptor is 64 bits.

use crate::PhysAddr;

/// log2 of the bytes of a descriptor: a level resolves [`crate::PageSize::shift`] minus this many bits of input address.
pub const DESCRIPTOR_SHIFT: u32 = 3;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 1 << DESCRIPTOR_SHIFT;

/// The bits of a descriptor, as one integer.
pub type Bits = u64;

/// Where descriptors keep the output-address bits above 47.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// Nowhere: output addresses have 48 bits.
    Bits48,
    /// FEAT_LPA, 64 KiB granule: bits 51:48 at 15:12.
    Lpa,
    /// FEAT_LPA2 (TCR_ELx.DS = 1), 4 and 16 KiB: bits 49:48 in place, 51:50 at 9:8, where shareability was.
    Lpa2,
}

/// Bits `high` to `low`, both included.
pub(crate) const fn bits(high: u32, low: u32) -> Bits {
    (!0 >> (Bits::BITS - 1 - high)) & (!0 << low)
}

impl Layout {
    /// Bits of the largest output address that a descriptor can hold.
    pub const fn output_bits(self) -> u32 {
        match self {
            Self::Bits48 => 48,
            Self::Lpa | Self::Lpa2 => 52,
        }
    }

    /// The descriptor bits that hold an output address aligned to `1 << shift`.
    pub const fn output_mask(self, shift: u32) -> Bits {
        match self {
            Self::Bits48 => bits(47, shift),
            Self::Lpa => bits(47, shift) | bits(15, 12),
            Self::Lpa2 => bits(49, shift) | bits(9, 8),
        }
    }

    /// The descriptor bits that hold `output`, which is aligned to a page and fits in [`Self::output_bits`].
    #[inline(always)]
    pub const fn encode_output(self, output: PhysAddr) -> Bits {
        let output = output.bits() as Bits;
        match self {
            Self::Bits48 => output & bits(47, 12),
            Self::Lpa => (output & bits(47, 16)) | (output >> 48 & 0xf) << 12,
            Self::Lpa2 => (output & bits(49, 12)) | (output >> 50 & 0b11) << 8,
        }
    }
}
