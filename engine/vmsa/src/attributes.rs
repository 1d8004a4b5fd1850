//! Attributes of stage-1 descriptors. They are the descriptor's own bits, so every descriptor can be represented and bits
//! without a name are kept.

use bitflags::bitflags;

use crate::Bits;
use crate::fields::{Field, STAGE1_LEAF, STAGE1_TABLE};

const AP: Field = STAGE1_LEAF.the("AP");
const SH: Field = STAGE1_LEAF.the("SH");
const ATTR_INDX: Field = STAGE1_LEAF.the("AttrIndx");
const AP_TABLE: Field = STAGE1_TABLE.the("APTable");

bitflags! {
    /// Attributes of a stage-1 block or page (D8.3.1.2). Bits that have no name here are kept as they are.
    ///
    /// Multi-bit fields have methods: [`Self::memory_index`], [`Self::access`], [`Self::shareability`].
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct Stage1Attributes: Bits {
        /// Bit 5, NS: the output address is in the Non-secure space.
        const NS = STAGE1_LEAF.the("NS").mask();
        /// Bit 6, AP\[1\]: EL0 may access it.
        const USER = AP.bit(0);
        /// Bit 7, AP\[2\]: read-only; with DBM and hardware dirty state, writable but clean.
        const READ_ONLY = AP.bit(1);
        /// Bit 8, SH\[0\]; with bit 9, inner shareable.
        const SH0 = SH.bit(0);
        /// Bit 9, SH\[1\]: shareable. In LPA2 descriptors bits 9:8 are output-address bits.
        const SH1 = SH.bit(1);
        /// Bits 9:8: inner shareable.
        const INNER_SHAREABLE = SH.put(3);
        /// Bit 10, AF: the leaf has been accessed; without it an access faults or hardware sets it.
        const AF = STAGE1_LEAF.the("AF").mask();
        /// Bit 11, nG: the translation belongs to one ASID.
        const NOT_GLOBAL = STAGE1_LEAF.the("nG").mask();
        /// Bit 16, nT: do not cache the translation (blocks, FEAT_BBM level 1).
        const NT = STAGE1_LEAF.the("nT").mask();
        /// Bit 50, GP: instruction fetches from it are guarded (FEAT_BTI).
        const GUARDED = STAGE1_LEAF.the("GP").mask();
        /// Bit 51, DBM: hardware may clear READ_ONLY on a write (FEAT_HAFDBS).
        const DBM = STAGE1_LEAF.the("DBM").mask();
        /// Bit 53, PXN: EL1 may not execute it.
        const PXN = STAGE1_LEAF.the("PXN").mask();
        /// Bit 54, UXN: EL0 may not execute it; XN in regimes with one privilege level.
        const UXN = STAGE1_LEAF.the("UXN").mask();
        /// Bits 58:55: left to software.
        const SOFTWARE = STAGE1_LEAF.software;
        const _ = !0;
    }
}

/// Who may read and write a leaf: AP\[2:1\] (D8.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// AP = 00: EL1 reads and writes.
    ReadWrite,
    /// AP = 01: EL1 and EL0 read and write.
    UserReadWrite,
    /// AP = 10: EL1 reads.
    ReadOnly,
    /// AP = 11: EL1 and EL0 read.
    UserReadOnly,
}

impl Stage1Attributes {
    /// XN, bit 54, of regimes with one privilege level, such as EL2: it may not be executed. They have no PXN.
    pub const XN: Self = Self::UXN;
    /// AP\[1\], bit 6, of regimes with one privilege level: RES1, so that it belongs into every leaf of EL2.
    pub const ONE_PRIVILEGE: Self = Self::USER;

    /// What may change in a live leaf without break-before-make, with a TLBI afterwards (RHWZWS).
    pub const IN_PLACE: Self = Self::from_bits_retain(STAGE1_LEAF.in_place);

    /// Neither EL1 nor EL0 may execute it.
    pub const NO_EXECUTE: Self = Self::PXN.union(Self::UXN);

    /// The field AttrIndx, bits 4:2, with this value, 0 to 7: which byte of MAIR_ELx tells the memory type.
    pub const fn memory(index: u8) -> Self {
        Self::from_bits_retain(ATTR_INDX.put(index as Bits))
    }

    /// AttrIndx, 0 to 7.
    pub const fn memory_index(self) -> u8 {
        ATTR_INDX.get(self.bits()) as u8
    }

    /// The field SH, bits 9:8: 0 non-shareable, 2 outer shareable, 3 inner shareable. Not in LPA2 descriptors.
    pub const fn shareability(self) -> u8 {
        SH.get(self.bits()) as u8
    }

    /// The field AP\[2:1\].
    pub const fn access(self) -> Access {
        match (self.contains(Self::READ_ONLY), self.contains(Self::USER)) {
            (false, false) => Access::ReadWrite,
            (false, true) => Access::UserReadWrite,
            (true, false) => Access::ReadOnly,
            (true, true) => Access::UserReadOnly,
        }
    }
}

impl From<Stage1Attributes> for Bits {
    fn from(attributes: Stage1Attributes) -> Self {
        attributes.bits()
    }
}

impl core::fmt::Debug for Stage1Attributes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.bits())
    }
}

bitflags! {
    /// Attributes of a stage-1 table descriptor, which limit every leaf below it (hierarchical control, D8.4.2). Bits that
    /// have no name here are kept.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct TableAttributes: Bits {
        /// Bit 10, AF of a table (FEAT_HAFT).
        const AF = STAGE1_TABLE.the("AF").mask();
        /// Bit 59, PXNTable: EL1 may not execute anything below.
        const PXN = STAGE1_TABLE.the("PXNTable").mask();
        /// Bit 60, UXNTable: EL0 may not execute anything below.
        const UXN = STAGE1_TABLE.the("UXNTable").mask();
        /// Bit 61, APTable\[0\]: EL0 may not access anything below.
        const NO_USER = AP_TABLE.bit(0);
        /// Bit 62, APTable\[1\]: nothing below may be written.
        const READ_ONLY = AP_TABLE.bit(1);
        /// Bit 63, NSTable: everything below is in the Non-secure space.
        const NS = STAGE1_TABLE.the("NSTable").mask();
        const _ = !0;
    }
}

impl TableAttributes {
    /// What limits leaves, PXN to NS: without a bit of these a table adds nothing to what its leaves say.
    pub const LIMITS: Self = Self::PXN.union(Self::UXN).union(Self::NO_USER).union(Self::READ_ONLY).union(Self::NS);
}

impl core::fmt::Debug for TableAttributes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_kept() {
        for bit in 0..64 {
            assert_eq!(Stage1Attributes::from_bits_retain(1 << bit).bits(), 1 << bit);
            assert_eq!(Stage1Attributes::from_bits(1 << bit).map(|flags| flags.bits()), Some(1 << bit));
        }
    }

    #[test]
    fn fields_are_where_the_manual_puts_them() {
        for index in 0..8 {
            assert_eq!(Stage1Attributes::memory(index).memory_index(), index);
            assert_eq!(Stage1Attributes::memory(index).bits(), u64::from(index) << 2);
        }
        assert_eq!(Stage1Attributes::INNER_SHAREABLE.shareability(), 3);
        let table =
            [(0, Access::ReadWrite), (1, Access::UserReadWrite), (2, Access::ReadOnly), (3, Access::UserReadOnly)];
        for (field, access) in table {
            assert_eq!(Stage1Attributes::from_bits_retain(field << 6).access(), access);
        }
        assert_eq!(Stage1Attributes::NO_EXECUTE.bits(), 0x0060_0000_0000_0000);
    }
}
