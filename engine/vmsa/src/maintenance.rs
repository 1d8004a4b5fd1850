//! Barriers and TLB maintenance as data: the operation and operand that hardware would execute.
//!
//! A TLBI is a SYS instruction, named by (op1, CRn, CRm, op2), with one 64-bit operand (C5.5, D8.17). Two things surprise
//! people: the address in an operand is always shifted by 12, whatever the granule, and a wrong level hint means that
//! nothing need be invalidated.

use core::fmt;

use crate::{Layout, Level, PageSize};

mod range;
mod tlbi;

pub use range::RangeOperand;
pub use tlbi::{TlbiName, TlbiOp, TlbiOperand};

/// Which accesses a barrier orders.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BarrierAccess {
    /// Loads before, loads and stores after (…LD).
    Loads,
    /// Stores before, stores after (…ST).
    Stores,
    /// All.
    All,
}

/// How far a barrier reaches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Domain {
    /// This PE.
    NonShareable,
    /// The inner shareable domain: every PE under one operating system.
    InnerShareable,
    /// The outer shareable domain.
    OuterShareable,
    /// The full system.
    FullSystem,
}

/// A barrier instruction (B2.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Barrier {
    /// Data synchronization barrier: also completes stores to tables and TLBIs.
    Dsb(Domain, BarrierAccess),
    /// Data memory barrier: orders, completes nothing.
    Dmb(Domain, BarrierAccess),
    /// Instruction synchronization barrier: a context synchronization event.
    Isb,
}

impl Barrier {
    /// Completes stores, so that walkers of the inner shareable domain see them.
    pub const DSB_ISHST: Self = Self::Dsb(Domain::InnerShareable, BarrierAccess::Stores);
    /// Completes everything, TLBIs of the inner shareable domain included.
    pub const DSB_ISH: Self = Self::Dsb(Domain::InnerShareable, BarrierAccess::All);
    /// Completes everything for this PE, local TLBIs included.
    pub const DSB_NSH: Self = Self::Dsb(Domain::NonShareable, BarrierAccess::All);

    /// The field CRm of a DSB or DMB: domain in bits 3:2, accesses in 1:0; 15 for an ISB.
    pub const fn crm(self) -> u8 {
        let (domain, access) = match self {
            Self::Dsb(domain, access) | Self::Dmb(domain, access) => (domain, access),
            Self::Isb => return 0b1111,
        };
        let domain = match domain {
            Domain::OuterShareable => 0b00,
            Domain::NonShareable => 0b01,
            Domain::InnerShareable => 0b10,
            Domain::FullSystem => 0b11,
        };
        let access = match access {
            BarrierAccess::Loads => 0b01,
            BarrierAccess::Stores => 0b10,
            BarrierAccess::All => 0b11,
        };
        domain << 2 | access
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, domain, access) = match self {
            Self::Dsb(domain, access) => ("dsb", domain, access),
            Self::Dmb(domain, access) => ("dmb", domain, access),
            Self::Isb => return f.write_str("isb"),
        };
        let domain = match domain {
            Domain::NonShareable => "nsh",
            Domain::InnerShareable => "ish",
            Domain::OuterShareable => "osh",
            Domain::FullSystem => "sy",
        };
        match access {
            BarrierAccess::All => write!(f, "{name} {domain}"),
            BarrierAccess::Loads => write!(f, "{name} {}ld", domain.trim_end_matches("sy")),
            BarrierAccess::Stores => write!(f, "{name} {}st", domain.trim_end_matches("sy")),
        }
    }
}

/// A barrier, or a TLBI with its operand (ignored by operations that take none).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Maintenance {
    /// A barrier.
    Barrier(Barrier),
    /// A TLBI and its 64-bit operand.
    Invalidate(TlbiOp, u64),
}

impl Maintenance {
    /// See [`Barrier::DSB_ISHST`].
    pub const DSB_ISHST: Self = Self::Barrier(Barrier::DSB_ISHST);
    /// See [`Barrier::DSB_ISH`].
    pub const DSB_ISH: Self = Self::Barrier(Barrier::DSB_ISH);
    /// See [`Barrier::DSB_NSH`].
    pub const DSB_NSH: Self = Self::Barrier(Barrier::DSB_NSH);
    /// See [`Barrier::Isb`].
    pub const ISB: Self = Self::Barrier(Barrier::Isb);
}

impl fmt::Display for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier(barrier) => barrier.fmt(f),
            Self::Invalidate(op, operand) if op.takes_operand() => write!(f, "tlbi {op}, {operand:#018x}"),
            Self::Invalidate(op, _) => write!(f, "tlbi {op}"),
        }
    }
}

/// The level hint of an operand by address: the granule and the level of the *leaf* (FEAT_TTL).
///
/// A hint that does not match means that nothing need be invalidated. It says nothing about tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LevelHint(u8);

impl LevelHint {
    /// No hint: a leaf of any level.
    pub const NONE: Self = Self(0);

    /// The hint for a leaf at `level`; none where the layout has no leaf, whose encoding the manual reserves.
    pub const fn leaf(size: PageSize, layout: Layout, level: Level) -> Self {
        if !size.has_leaf(level, layout) {
            return Self::NONE;
        }
        let granule = match size {
            PageSize::Size4K => 0b01,
            PageSize::Size16K => 0b10,
            PageSize::Size64K => 0b11,
        };
        Self(granule << 2 | level.number() as u8)
    }

    /// The field TTL, four bits.
    pub const fn ttl(self) -> u8 {
        self.0
    }
}

/// Bits 55:12 of an address, where a single-address operand keeps them. By 12 at every granule.
const fn address_field(address: u64) -> u64 {
    address >> 12 & ((1 << 44) - 1)
}

/// The operand of a TLBI by virtual address: ASID 63:48, TTL 47:44, VA\[55:12\] 43:0.
///
/// ```
/// use vellum_vmsa::maintenance::{LevelHint, Maintenance, TlbiOp, operand_by_address};
/// use vellum_vmsa::{Layout, Level, PageSize};
///
/// let hint = LevelHint::leaf(PageSize::Size64K, Layout::Bits48, Level::L3);
/// let operand = operand_by_address(7, hint, 0x1_2345_0000);
/// let tlbi = Maintenance::Invalidate(TlbiOp::VALE1IS, operand);
/// assert_eq!(tlbi.to_string(), "tlbi vale1is, 0x0007f00000123450");
/// ```
pub const fn operand_by_address(asid: u16, hint: LevelHint, address: u64) -> u64 {
    (asid as u64) << 48 | (hint.0 as u64) << 44 | address_field(address)
}

/// The operand of a TLBI by intermediate physical address: TTL 47:44, IPA\[51:12\] 39:0.
pub const fn operand_by_intermediate(hint: LevelHint, address: u64) -> u64 {
    (hint.0 as u64) << 44 | (address >> 12 & ((1 << 40) - 1))
}

/// The operand of a TLBI by ASID: ASID 63:48.
pub const fn operand_by_asid(asid: u16) -> u64 {
    (asid as u64) << 48
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn barriers_encode_as_the_manual_says() {
        let table = [
            (Barrier::DSB_ISHST, "dsb ishst", 0b1010),
            (Barrier::DSB_ISH, "dsb ish", 0b1011),
            (Barrier::DSB_NSH, "dsb nsh", 0b0111),
            (Barrier::Dmb(Domain::OuterShareable, BarrierAccess::Loads), "dmb oshld", 0b0001),
            (Barrier::Dsb(Domain::FullSystem, BarrierAccess::All), "dsb sy", 0b1111),
            (Barrier::Dsb(Domain::FullSystem, BarrierAccess::Stores), "dsb st", 0b1110),
            (Barrier::Isb, "isb", 0b1111),
        ];
        for (barrier, text, crm) in table {
            assert_eq!((barrier.to_string().as_str(), barrier.crm()), (text, crm));
        }
    }

    #[test]
    fn operands_shift_addresses_by_12_at_every_granule() {
        for size in PageSize::ALL {
            let address = 0xffff_8000_1234_0000;
            let operand = operand_by_address(0, LevelHint::NONE, address);
            assert_eq!(operand, 0x0000_0ff8_0001_2340, "{size}");
            assert_eq!(operand >> 44, 0, "address bits leak into the level hint");
        }
        let hint = LevelHint::leaf(PageSize::Size4K, Layout::Bits48, Level::L2);
        assert_eq!(operand_by_address(0xabcd, hint, 0x0000_0012_3456_7000), 0xabcd_6000_0123_4567);
        assert_eq!(operand_by_intermediate(hint, 0x000f_1234_5678_9000), 0x0000_60f1_2345_6789);
        assert_eq!(operand_by_asid(0x1234), 0x1234_0000_0000_0000);
    }

    /// The TTL encodings: D8.17.5.
    #[test]
    fn an_intermediate_address_has_40_bits_of_the_operand() {
        assert_eq!(operand_by_intermediate(LevelHint::NONE, u64::MAX), (1 << 40) - 1);
        assert_eq!(operand_by_intermediate(LevelHint::NONE, 0x1_2345_6000), 0x12_3456);
    }

    #[test]
    fn level_hints_match_the_manual() {
        let table = [
            (PageSize::Size4K, Layout::Bits48, [0b0000, 0b0101, 0b0110, 0b0111]),
            (PageSize::Size4K, Layout::Lpa2, [0b0100, 0b0101, 0b0110, 0b0111]),
            (PageSize::Size16K, Layout::Bits48, [0, 0, 0b1010, 0b1011]),
            (PageSize::Size16K, Layout::Lpa2, [0, 0b1001, 0b1010, 0b1011]),
            (PageSize::Size64K, Layout::Bits48, [0, 0, 0b1110, 0b1111]),
            (PageSize::Size64K, Layout::Lpa, [0, 0b1101, 0b1110, 0b1111]),
        ];
        for (size, layout, hints) in table {
            for (number, hint) in (0..).zip(hints) {
                let level = Level::new(number).unwrap();
                assert_eq!(LevelHint::leaf(size, layout, level).ttl(), hint, "{size} {layout:?} {level}");
            }
        }
    }
}
