//! The TLBI operations of the EL1&0 and EL2 regimes, by the fields of their SYS encoding.

use core::fmt;

/// A TLBI operation: op1, CRn, CRm and op2 of its SYS instruction (op0 is 1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlbiOp(u16);

impl TlbiOp {
    /// The operation with these fields; only their low 3, 4, 4 and 3 bits count.
    pub const fn new(op1: u8, crn: u8, crm: u8, op2: u8) -> Self {
        let (op1, crn, crm, op2) = (op1 as u16 & 7, crn as u16 & 15, crm as u16 & 15, op2 as u16 & 7);
        Self(op1 << 11 | crn << 7 | crm << 3 | op2)
    }

    /// The fields op1, CRn, CRm, op2.
    pub const fn fields(self) -> (u8, u8, u8, u8) {
        ((self.0 >> 11) as u8 & 7, (self.0 >> 7) as u8 & 15, (self.0 >> 3) as u8 & 15, self.0 as u8 & 7)
    }

    /// The fields packed as op1:CRn:CRm:op2, 14 bits, as in bits 18:5 of the instruction.
    pub const fn packed(self) -> u16 {
        self.0
    }

    /// The nXS variant: it does not wait for accesses with the XS attribute (FEAT_XS). CRn is 9.
    pub const fn without_xs(self) -> Self {
        Self(self.0 & !(15 << 7) | 9 << 7)
    }

    /// The operation of this name, in either case, `nXS` suffix included; `None` if there is none.
    pub fn find(name: &str) -> Option<Self> {
        let nxs =
            name.len().checked_sub(3).filter(|&at| name.is_char_boundary(at) && name[at..].eq_ignore_ascii_case("nxs"));
        let base = nxs.map_or(name, |at| &name[..at]);
        let (op, _) = NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(base))?;
        Some(if nxs.is_some() { op.without_xs() } else { *op })
    }

    /// The name in upper case, without the `nXS` suffix; `None` if the fields are no operation known here.
    pub fn name(self) -> Option<&'static str> {
        let with_xs = Self(self.0 & !(15 << 7) | 8 << 7);
        let (_, name) = NAMES.iter().find(|(op, _)| *op == with_xs).filter(|_| matches!(self.fields().1, 8 | 9))?;
        Some(name)
    }

    /// Whether it is the nXS variant.
    pub const fn is_without_xs(self) -> bool {
        self.fields().1 == 9
    }

    /// Whether the operand counts: not for the ALL and VMALL operations.
    pub fn takes_operand(self) -> bool {
        !self.name().is_some_and(|name| name.starts_with("ALL") || name.starts_with("VMALL"))
    }
}

impl fmt::Display for TlbiOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(name) = self.name() else {
            let (op1, crn, crm, op2) = self.fields();
            return write!(f, "sys #{op1}, c{crn}, c{crm}, #{op2}");
        };
        name.chars().try_for_each(|letter| write!(f, "{}", letter.to_ascii_lowercase()))?;
        f.write_str(if self.is_without_xs() { "nxs" } else { "" })
    }
}

impl fmt::Debug for TlbiOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! tlbi {
    ($($name:ident = $op1:literal $crm:literal $op2:literal: $doc:literal;)*) => {
        impl TlbiOp {
            $(#[doc = $doc] pub const $name: Self = Self::new($op1, 8, $crm, $op2);)*
        }

        const NAMES: &[(TlbiOp, &str)] = &[$((TlbiOp::$name, stringify!($name)),)*];
    };
}

// Each line: name, op1, CRm, op2 (C5.5). "All levels" includes the walk-cache entries for tables on the way to the address.
tlbi! {
    VMALLE1 = 0 7 0: "Stage 1 of EL1&0, everything, current VMID, this PE.";
    VAE1 = 0 7 1: "EL1&0 by address and ASID, all levels, this PE.";
    ASIDE1 = 0 7 2: "EL1&0 by ASID, non-global entries, this PE.";
    VAAE1 = 0 7 3: "EL1&0 by address, any ASID, all levels, this PE.";
    VALE1 = 0 7 5: "EL1&0 by address and ASID, last level, this PE.";
    VAALE1 = 0 7 7: "EL1&0 by address, any ASID, last level, this PE.";
    VMALLE1IS = 0 3 0: "Stage 1 of EL1&0, everything, current VMID, inner shareable.";
    VAE1IS = 0 3 1: "EL1&0 by address and ASID, all levels, inner shareable.";
    ASIDE1IS = 0 3 2: "EL1&0 by ASID, non-global entries, inner shareable.";
    VAAE1IS = 0 3 3: "EL1&0 by address, any ASID, all levels, inner shareable.";
    VALE1IS = 0 3 5: "EL1&0 by address and ASID, last level, inner shareable.";
    VAALE1IS = 0 3 7: "EL1&0 by address, any ASID, last level, inner shareable.";
    VMALLE1OS = 0 1 0: "Stage 1 of EL1&0, everything, current VMID, outer shareable.";
    VAE1OS = 0 1 1: "EL1&0 by address and ASID, all levels, outer shareable.";
    ASIDE1OS = 0 1 2: "EL1&0 by ASID, non-global entries, outer shareable.";
    VAAE1OS = 0 1 3: "EL1&0 by address, any ASID, all levels, outer shareable.";
    VALE1OS = 0 1 5: "EL1&0 by address and ASID, last level, outer shareable.";
    VAALE1OS = 0 1 7: "EL1&0 by address, any ASID, last level, outer shareable.";
    RVAE1 = 0 6 1: "EL1&0 by range and ASID, all levels, this PE.";
    RVAAE1 = 0 6 3: "EL1&0 by range, any ASID, all levels, this PE.";
    RVALE1 = 0 6 5: "EL1&0 by range and ASID, last level, this PE.";
    RVAALE1 = 0 6 7: "EL1&0 by range, any ASID, last level, this PE.";
    RVAE1IS = 0 2 1: "EL1&0 by range and ASID, all levels, inner shareable.";
    RVAAE1IS = 0 2 3: "EL1&0 by range, any ASID, all levels, inner shareable.";
    RVALE1IS = 0 2 5: "EL1&0 by range and ASID, last level, inner shareable.";
    RVAALE1IS = 0 2 7: "EL1&0 by range, any ASID, last level, inner shareable.";
    RVAE1OS = 0 5 1: "EL1&0 by range and ASID, all levels, outer shareable.";
    RVAAE1OS = 0 5 3: "EL1&0 by range, any ASID, all levels, outer shareable.";
    RVALE1OS = 0 5 5: "EL1&0 by range and ASID, last level, outer shareable.";
    RVAALE1OS = 0 5 7: "EL1&0 by range, any ASID, last level, outer shareable.";
    ALLE2 = 4 7 0: "EL2 and EL2&0, everything, this PE.";
    VAE2 = 4 7 1: "EL2 by address (and ASID in EL2&0), all levels, this PE.";
    ALLE1 = 4 7 4: "EL1&0, everything, every VMID, this PE.";
    VALE2 = 4 7 5: "EL2 by address (and ASID in EL2&0), last level, this PE.";
    VMALLS12E1 = 4 7 6: "Both stages of EL1&0, everything, current VMID, this PE.";
    ALLE2IS = 4 3 0: "EL2 and EL2&0, everything, inner shareable.";
    VAE2IS = 4 3 1: "EL2 by address (and ASID in EL2&0), all levels, inner shareable.";
    ALLE1IS = 4 3 4: "EL1&0, everything, every VMID, inner shareable.";
    VALE2IS = 4 3 5: "EL2 by address (and ASID in EL2&0), last level, inner shareable.";
    VMALLS12E1IS = 4 3 6: "Both stages of EL1&0, everything, current VMID, inner shareable.";
    ALLE2OS = 4 1 0: "EL2 and EL2&0, everything, outer shareable.";
    VAE2OS = 4 1 1: "EL2 by address (and ASID in EL2&0), all levels, outer shareable.";
    ALLE1OS = 4 1 4: "EL1&0, everything, every VMID, outer shareable.";
    VALE2OS = 4 1 5: "EL2 by address (and ASID in EL2&0), last level, outer shareable.";
    VMALLS12E1OS = 4 1 6: "Both stages of EL1&0, everything, current VMID, outer shareable.";
    RVAE2 = 4 6 1: "EL2 by range, all levels, this PE.";
    RVALE2 = 4 6 5: "EL2 by range, last level, this PE.";
    RVAE2IS = 4 2 1: "EL2 by range, all levels, inner shareable.";
    RVALE2IS = 4 2 5: "EL2 by range, last level, inner shareable.";
    RVAE2OS = 4 5 1: "EL2 by range, all levels, outer shareable.";
    RVALE2OS = 4 5 5: "EL2 by range, last level, outer shareable.";
    IPAS2E1IS = 4 0 1: "Stage 2 by intermediate address, all levels, current VMID, inner shareable.";
    RIPAS2E1IS = 4 0 2: "Stage 2 by range, all levels, current VMID, inner shareable.";
    IPAS2LE1IS = 4 0 5: "Stage 2 by intermediate address, last level, current VMID, inner shareable.";
    RIPAS2LE1IS = 4 0 6: "Stage 2 by range, last level, current VMID, inner shareable.";
    IPAS2E1OS = 4 4 0: "Stage 2 by intermediate address, all levels, current VMID, outer shareable.";
    IPAS2E1 = 4 4 1: "Stage 2 by intermediate address, all levels, current VMID, this PE.";
    RIPAS2E1 = 4 4 2: "Stage 2 by range, all levels, current VMID, this PE.";
    RIPAS2E1OS = 4 4 3: "Stage 2 by range, all levels, current VMID, outer shareable.";
    IPAS2LE1OS = 4 4 4: "Stage 2 by intermediate address, last level, current VMID, outer shareable.";
    IPAS2LE1 = 4 4 5: "Stage 2 by intermediate address, last level, current VMID, this PE.";
    RIPAS2LE1 = 4 4 6: "Stage 2 by range, last level, current VMID, this PE.";
    RIPAS2LE1OS = 4 4 7: "Stage 2 by range, last level, current VMID, outer shareable.";
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::BTreeSet;
    use std::string::ToString;

    use super::*;

    #[test]
    fn encodings_are_unique_and_found_by_name() {
        assert_eq!(NAMES.len(), 63);
        assert_eq!(NAMES.iter().map(|(op, _)| op.packed()).collect::<BTreeSet<_>>().len(), NAMES.len());
        for (op, name) in NAMES {
            assert_eq!(TlbiOp::find(name), Some(*op));
            assert_eq!(TlbiOp::find(&op.to_string()), Some(*op));
            let without_xs = op.without_xs();
            assert_eq!(TlbiOp::find(&without_xs.to_string()), Some(without_xs));
            assert_eq!(without_xs.name(), Some(*name));
        }
        assert_eq!(TlbiOp::find("vae9"), None);
        assert_eq!(TlbiOp::find("é"), None);
        assert_eq!(TlbiOp::new(0, 7, 3, 1).to_string(), "sys #0, c7, c3, #1");
    }

    /// Instruction words from an assembler: `tlbi NAME, x0` is 0xd508_0000 | op1 << 16 | CRn << 12 | CRm << 8 | op2 << 5.
    #[test]
    fn words_match_an_assembler() {
        let table = [
            (TlbiOp::VMALLE1, 0xd508_871f_u32),
            (TlbiOp::VAE1IS, 0xd508_8320),
            (TlbiOp::VAALE1IS, 0xd508_83e0),
            (TlbiOp::RVAE1IS, 0xd508_8220),
            (TlbiOp::ASIDE1OS, 0xd508_8140),
            (TlbiOp::VMALLS12E1IS, 0xd50c_83df),
            (TlbiOp::IPAS2E1IS, 0xd50c_8020),
            (TlbiOp::RIPAS2LE1OS, 0xd50c_84e0),
            (TlbiOp::VAE2IS.without_xs(), 0xd50c_9320),
        ];
        for (op, word) in table {
            let register = if op.takes_operand() { 0 } else { 31 };
            assert_eq!(0xd508_0000 & !0x0007_0000 | u32::from(op.packed()) << 5 | register, word, "{op}");
        }
    }

    #[test]
    fn only_the_all_operations_take_no_operand() {
        let without = NAMES.iter().filter(|(op, _)| !op.takes_operand()).count();
        assert_eq!(without, 12);
    }
}
