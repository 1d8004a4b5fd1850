//! Attributes of stage-2 descriptors (D8.3.2). As with stage 1 they are the descriptor's own bits.

use bitflags::bitflags;

use crate::Bits;
use crate::fields::{Field, STAGE2_LEAF};

const S2AP: Field = STAGE2_LEAF.the("S2AP");
const XN: Field = STAGE2_LEAF.the("XN");
const SH: Field = STAGE2_LEAF.the("SH");
const MEM_ATTR: Field = STAGE2_LEAF.the("MemAttr");

bitflags! {
    /// Attributes of a stage-2 block or page. Bits that have no name here are kept as they are.
    ///
    /// Multi-bit fields have methods: [`Self::memory_attributes`], [`Self::shareability`], [`Self::execute`].
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct Stage2Attributes: Bits {
        /// Bit 6, S2AP\[0\]: it may be read.
        const READ = S2AP.bit(0);
        /// Bit 7, S2AP\[1\]: it may be written.
        const WRITE = S2AP.bit(1);
        /// Bits 9:8: inner shareable. In LPA2 descriptors bits 9:8 are output-address bits.
        const INNER_SHAREABLE = SH.put(3);
        /// Bit 10, AF: the leaf has been accessed; without it an access faults or hardware sets it.
        const AF = STAGE2_LEAF.the("AF").mask();
        /// Bit 11, FnXS: accesses do not have the XS attribute (FEAT_XS).
        const NOT_XS = STAGE2_LEAF.the("FnXS").mask();
        /// Bit 16, nT: do not cache the translation (blocks, FEAT_BBM level 1).
        const NT = STAGE2_LEAF.the("nT").mask();
        /// Bit 51, DBM: hardware may set WRITE on a write (FEAT_HAFDBS).
        const DBM = STAGE2_LEAF.the("DBM").mask();
        /// Bit 53, XN\[0\]: with XN\[1\], who may execute it; see [`Self::execute`].
        const XN0 = XN.bit(0);
        /// Bit 54, XN\[1\]: without FEAT_XNX the only bit, and nobody may execute.
        const XN1 = XN.bit(1);
        /// Bits 58:55: left to software.
        const SOFTWARE = STAGE2_LEAF.software;
        const _ = !0;
    }
}

/// Who stage 2 lets execute: XN\[1:0\] with FEAT_XNX (D8.4.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Execute {
    /// XN = 00: EL1 and EL0.
    Everyone,
    /// XN = 01: EL0 alone.
    User,
    /// XN = 10: nobody.
    Nobody,
    /// XN = 11: EL1 alone.
    Privileged,
}

/// The memory type that stage 2 gives, or the limit that it sets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage2Memory {
    /// Device-nGnRnE, nGnRE, nGRE or GRE: the low two bits, 0 to 3.
    Device(u8),
    /// Normal, not cached.
    NonCacheable,
    /// Normal, write-through (without FEAT_S2FWB only).
    WriteThrough,
    /// Normal, write-back.
    WriteBack,
    /// Whatever stage 1 says (FEAT_S2FWB only).
    Stage1,
    /// An encoding that the manual reserves, or gives different inner and outer cacheability.
    Other(u8),
}

impl Stage2Attributes {
    /// It may be read and written.
    pub const READ_WRITE: Self = Self::READ.union(Self::WRITE);
    /// What may change in a live leaf without break-before-make, with a TLBI afterwards (RHWZWS).
    pub const IN_PLACE: Self = Self::from_bits_retain(STAGE2_LEAF.in_place);
    /// XN\[1:0\], bits 54:53.
    pub const EXECUTE: Self = Self::XN0.union(Self::XN1);
    /// MemAttr\[3:0\], bits 5:2.
    pub const MEMORY: Self = Self::from_bits_retain(MEM_ATTR.mask());

    /// The bits of MemAttr that give `memory`; `None` if there are none that do. `forces_write_back` is HCR_EL2.FWB (D8.6.6).
    ///
    /// ```
    /// use vellum_vmsa::{Stage2Attributes, Stage2Memory};
    ///
    /// let bits = |memory, fwb| Stage2Attributes::with_memory(memory, fwb).map(|attributes| attributes.bits());
    /// assert_eq!(bits(Stage2Memory::WriteBack, false), Some(0b1111 << 2));
    /// assert_eq!(bits(Stage2Memory::WriteBack, true), Some(0b0110 << 2));
    /// assert_eq!(bits(Stage2Memory::Stage1, false), None);
    /// ```
    pub const fn with_memory(memory: Stage2Memory, forces_write_back: bool) -> Option<Self> {
        let field = match (memory, forces_write_back) {
            (Stage2Memory::Device(kind @ 0..=3), _) => kind,
            (Stage2Memory::NonCacheable, _) => 0b0101,
            (Stage2Memory::WriteThrough, false) => 0b1010,
            (Stage2Memory::WriteBack, false) => 0b1111,
            (Stage2Memory::WriteBack, true) => 0b0110,
            (Stage2Memory::Stage1, true) => 0b0111,
            (Stage2Memory::Other(field @ 0..=15), _) => field,
            _ => return None,
        };
        Some(Self::from_bits_retain(MEM_ATTR.put(field as Bits)))
    }

    /// The bits of XN that let `who` execute. Without FEAT_XNX (`has_xnx`), which alone tells EL0 from EL1, `None` for what
    /// only it can say: XN\[0\] is RES0 then.
    pub const fn with_execute(who: Execute, has_xnx: bool) -> Option<Self> {
        match who {
            Execute::Everyone => Some(Self::empty()),
            Execute::Nobody => Some(Self::XN1),
            Execute::User if has_xnx => Some(Self::XN0),
            Execute::Privileged if has_xnx => Some(Self::EXECUTE),
            _ => None,
        }
    }

    /// MemAttr\[3:0\], bits 5:2.
    pub const fn memory_attributes(self) -> u8 {
        MEM_ATTR.get(self.bits()) as u8
    }

    /// The field SH, bits 9:8. Not in LPA2 descriptors.
    pub const fn shareability(self) -> u8 {
        SH.get(self.bits()) as u8
    }

    /// Who may execute it, with FEAT_XNX.
    pub const fn execute(self) -> Execute {
        match (self.contains(Self::XN1), self.contains(Self::XN0)) {
            (false, false) => Execute::Everyone,
            (false, true) => Execute::User,
            (true, false) => Execute::Nobody,
            (true, true) => Execute::Privileged,
        }
    }

    /// The memory type. `forces_write_back` is HCR_EL2.FWB, which gives MemAttr another meaning (D8.6.6).
    pub const fn memory(self, forces_write_back: bool) -> Stage2Memory {
        let field = self.memory_attributes();
        match (forces_write_back, field) {
            (_, 0b0000..=0b0011) => Stage2Memory::Device(field),
            (false, 0b0101) | (true, 0b0101) => Stage2Memory::NonCacheable,
            (false, 0b1010) => Stage2Memory::WriteThrough,
            (false, 0b1111) | (true, 0b0110) => Stage2Memory::WriteBack,
            (true, 0b0111) => Stage2Memory::Stage1,
            _ => Stage2Memory::Other(field),
        }
    }
}

impl From<Stage2Attributes> for Bits {
    fn from(attributes: Stage2Attributes) -> Self {
        attributes.bits()
    }
}

impl core::fmt::Debug for Stage2Attributes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_manual_puts_them() {
        let attributes = Stage2Attributes::from_bits_retain;
        for field in 0..16 {
            assert_eq!(u64::from(attributes(field << 2).memory_attributes()), field);
        }
        let table = [(0, Execute::Everyone), (1, Execute::User), (2, Execute::Nobody), (3, Execute::Privileged)];
        for (field, execute) in table {
            assert_eq!(attributes(field << 53).execute(), execute);
        }
        assert_eq!(attributes(0b11 << 8).shareability(), 3);
        let full = attributes(u64::MAX);
        assert_eq!((full.memory_attributes(), full.shareability(), full.execute()), (0xf, 3, Execute::Privileged));
    }

    /// MemAttr without and with HCR_EL2.FWB.
    #[test]
    fn memory_types_depend_on_fwb() {
        let table = [
            (0b0000, Stage2Memory::Device(0), Stage2Memory::Device(0)),
            (0b0001, Stage2Memory::Device(1), Stage2Memory::Device(1)),
            (0b0101, Stage2Memory::NonCacheable, Stage2Memory::NonCacheable),
            (0b0110, Stage2Memory::Other(6), Stage2Memory::WriteBack),
            (0b0111, Stage2Memory::Other(7), Stage2Memory::Stage1),
            (0b1010, Stage2Memory::WriteThrough, Stage2Memory::Other(10)),
            (0b1111, Stage2Memory::WriteBack, Stage2Memory::Other(15)),
        ];
        for (field, plain, forced) in table {
            let attributes = Stage2Attributes::from_bits_retain(field << 2);
            assert_eq!((attributes.memory(false), attributes.memory(true)), (plain, forced), "{field:#06b}");
        }
    }

    /// What cannot be said is refused.
    #[test]
    fn execution_is_made_as_it_is_read() {
        for refused in [Stage2Memory::Device(4), Stage2Memory::Other(16), Stage2Memory::WriteThrough] {
            assert_eq!(Stage2Attributes::with_memory(refused, true), None);
        }
        assert_eq!(Stage2Attributes::with_memory(Stage2Memory::Stage1, false), None);
        for who in [Execute::Everyone, Execute::User, Execute::Nobody, Execute::Privileged] {
            let made = Stage2Attributes::with_execute(who, true).unwrap();
            assert_eq!((made.execute(), made.difference(Stage2Attributes::EXECUTE).is_empty()), (who, true));
            let plain = Stage2Attributes::with_execute(who, false);
            assert_eq!(plain, (!made.contains(Stage2Attributes::XN0)).then_some(made));
        }
    }
}
