//! The TLBI operations of the EL1&0 and EL2 regimes. All that anybody knows of one follows from its row in the table below.

use core::fmt;

use super::Domain;

/// What the operand of a TLBI names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TlbiOperand {
    /// Nothing: the instruction's register is XZR.
    Nothing,
    /// An ASID.
    Asid,
    /// An ASID and an address, with a level hint.
    Address,
    /// An address under any ASID, with a level hint.
    AddressAnyAsid,
    /// An ASID and a range of addresses (FEAT_TLBIRANGE).
    Range,
    /// A range of addresses under any ASID (FEAT_TLBIRANGE).
    RangeAnyAsid,
    /// An intermediate physical address, with a level hint.
    Intermediate,
    /// A range of intermediate physical addresses (FEAT_TLBIRANGE).
    IntermediateRange,
}

impl TlbiOperand {
    /// Whether it names a range: the operation is FEAT_TLBIRANGE's.
    pub const fn is_range(self) -> bool {
        matches!(self, Self::Range | Self::RangeAnyAsid | Self::IntermediateRange)
    }
}

/// A TLBI operation: its name, and whether it is the nXS variant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlbiOp {
    name: TlbiName,
    is_without_xs: bool,
}

impl TlbiOp {
    /// The operation of this name.
    pub const fn new(name: TlbiName) -> Self {
        Self { name, is_without_xs: false }
    }

    /// The operation whose SYS instruction has these fields; `None` if there is none.
    pub const fn decode(op1: u8, crn: u8, crm: u8, op2: u8) -> Option<Self> {
        match (crn, TlbiName::decode(op1, crm, op2)) {
            (8, Some(name)) => Some(Self { name, is_without_xs: false }),
            (9, Some(name)) => Some(Self { name, is_without_xs: true }),
            _ => None,
        }
    }

    /// The fields op1, CRn, CRm, op2 of its SYS instruction; op0 is 1.
    pub const fn fields(self) -> (u8, u8, u8, u8) {
        let (op1, crm, op2) = self.name.fields();
        (op1, if self.is_without_xs { 9 } else { 8 }, crm, op2)
    }

    /// The nXS variant: it does not wait for accesses with the XS attribute (FEAT_XS). CRn is 9.
    pub const fn without_xs(self) -> Self {
        Self { is_without_xs: true, ..self }
    }

    /// The operation of this name, in either case, `nXS` suffix included; `None` if there is none.
    pub fn find(name: &str) -> Option<Self> {
        let nxs =
            name.len().checked_sub(3).filter(|&at| name.is_char_boundary(at) && name[at..].eq_ignore_ascii_case("nxs"));
        let base = nxs.map_or(name, |at| &name[..at]);
        let known = TlbiName::ALL.iter().find(|known| known.as_str().eq_ignore_ascii_case(base))?;
        Some(Self { name: *known, is_without_xs: nxs.is_some() })
    }

    /// The name without the `nXS` suffix.
    pub const fn name(self) -> TlbiName {
        self.name
    }

    /// Whether it is the nXS variant.
    pub const fn is_without_xs(self) -> bool {
        self.is_without_xs
    }

    /// What its operand names.
    #[inline]
    pub const fn operand(self) -> TlbiOperand {
        self.name.operand()
    }

    /// Whether the operand counts: not for the ALL and VMALL operations.
    pub const fn takes_operand(self) -> bool {
        !matches!(self.operand(), TlbiOperand::Nothing)
    }

    /// Whose TLBs forget.
    pub const fn domain(self) -> Domain {
        self.name.domain()
    }
}

impl fmt::Display for TlbiOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.as_str().chars().try_for_each(|letter| write!(f, "{}", letter.to_ascii_lowercase()))?;
        f.write_str(if self.is_without_xs { "nxs" } else { "" })
    }
}

impl fmt::Debug for TlbiOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Hands the table of TLBIs to a macro, behind other arguments. Each row: name, op1, CRm, op2 (C5.5), whose TLBs forget
/// ([`Domain`](crate::maintenance::Domain)), what the operand names ([`TlbiOperand`](crate::maintenance::TlbiOperand)), and
/// what people say of the two.
///
/// A platform that executes TLBIs makes its `match` of it: none is left out, and none is executed by another's encoding.
///
/// ```
/// macro_rules! instructions {
///     ($crn:literal; $($name:ident = $op1:literal $crm:literal $op2:literal $domain:ident $operand:ident: $doc:literal;)*) => {
///         [$((stringify!($name), concat!("sys #", $op1, ", c", $crn, ", c", $crm, ", #", $op2)),)*]
///     };
/// }
/// let table = vellum_vmsa::for_each_tlbi!(instructions 8);
/// assert!(table.contains(&("VAE1IS", "sys #0, c8, c3, #1")));
/// ```
#[macro_export]
macro_rules! for_each_tlbi {
    // "All levels" includes the walk-cache entries for tables on the way to the address.
    ($use:ident $($argument:tt)*) => {
        $use! { $($argument)*;
            VMALLE1 = 0 7 0 NonShareable Nothing: "Stage 1 of EL1&0, everything, current VMID";
            VAE1 = 0 7 1 NonShareable Address: "EL1&0 by address and ASID, all levels";
            ASIDE1 = 0 7 2 NonShareable Asid: "EL1&0 by ASID, non-global entries";
            VAAE1 = 0 7 3 NonShareable AddressAnyAsid: "EL1&0 by address, any ASID, all levels";
            VALE1 = 0 7 5 NonShareable Address: "EL1&0 by address and ASID, last level";
            VAALE1 = 0 7 7 NonShareable AddressAnyAsid: "EL1&0 by address, any ASID, last level";
            VMALLE1IS = 0 3 0 InnerShareable Nothing: "Stage 1 of EL1&0, everything, current VMID";
            VAE1IS = 0 3 1 InnerShareable Address: "EL1&0 by address and ASID, all levels";
            ASIDE1IS = 0 3 2 InnerShareable Asid: "EL1&0 by ASID, non-global entries";
            VAAE1IS = 0 3 3 InnerShareable AddressAnyAsid: "EL1&0 by address, any ASID, all levels";
            VALE1IS = 0 3 5 InnerShareable Address: "EL1&0 by address and ASID, last level";
            VAALE1IS = 0 3 7 InnerShareable AddressAnyAsid: "EL1&0 by address, any ASID, last level";
            VMALLE1OS = 0 1 0 OuterShareable Nothing: "Stage 1 of EL1&0, everything, current VMID";
            VAE1OS = 0 1 1 OuterShareable Address: "EL1&0 by address and ASID, all levels";
            ASIDE1OS = 0 1 2 OuterShareable Asid: "EL1&0 by ASID, non-global entries";
            VAAE1OS = 0 1 3 OuterShareable AddressAnyAsid: "EL1&0 by address, any ASID, all levels";
            VALE1OS = 0 1 5 OuterShareable Address: "EL1&0 by address and ASID, last level";
            VAALE1OS = 0 1 7 OuterShareable AddressAnyAsid: "EL1&0 by address, any ASID, last level";
            RVAE1 = 0 6 1 NonShareable Range: "EL1&0 by range and ASID, all levels";
            RVAAE1 = 0 6 3 NonShareable RangeAnyAsid: "EL1&0 by range, any ASID, all levels";
            RVALE1 = 0 6 5 NonShareable Range: "EL1&0 by range and ASID, last level";
            RVAALE1 = 0 6 7 NonShareable RangeAnyAsid: "EL1&0 by range, any ASID, last level";
            RVAE1IS = 0 2 1 InnerShareable Range: "EL1&0 by range and ASID, all levels";
            RVAAE1IS = 0 2 3 InnerShareable RangeAnyAsid: "EL1&0 by range, any ASID, all levels";
            RVALE1IS = 0 2 5 InnerShareable Range: "EL1&0 by range and ASID, last level";
            RVAALE1IS = 0 2 7 InnerShareable RangeAnyAsid: "EL1&0 by range, any ASID, last level";
            RVAE1OS = 0 5 1 OuterShareable Range: "EL1&0 by range and ASID, all levels";
            RVAAE1OS = 0 5 3 OuterShareable RangeAnyAsid: "EL1&0 by range, any ASID, all levels";
            RVALE1OS = 0 5 5 OuterShareable Range: "EL1&0 by range and ASID, last level";
            RVAALE1OS = 0 5 7 OuterShareable RangeAnyAsid: "EL1&0 by range, any ASID, last level";
            ALLE2 = 4 7 0 NonShareable Nothing: "EL2 and EL2&0, everything";
            VAE2 = 4 7 1 NonShareable Address: "EL2 by address (and ASID in EL2&0), all levels";
            ALLE1 = 4 7 4 NonShareable Nothing: "EL1&0, everything, every VMID";
            VALE2 = 4 7 5 NonShareable Address: "EL2 by address (and ASID in EL2&0), last level";
            VMALLS12E1 = 4 7 6 NonShareable Nothing: "Both stages of EL1&0, everything, current VMID";
            ALLE2IS = 4 3 0 InnerShareable Nothing: "EL2 and EL2&0, everything";
            VAE2IS = 4 3 1 InnerShareable Address: "EL2 by address (and ASID in EL2&0), all levels";
            ALLE1IS = 4 3 4 InnerShareable Nothing: "EL1&0, everything, every VMID";
            VALE2IS = 4 3 5 InnerShareable Address: "EL2 by address (and ASID in EL2&0), last level";
            VMALLS12E1IS = 4 3 6 InnerShareable Nothing: "Both stages of EL1&0, everything, current VMID";
            ALLE2OS = 4 1 0 OuterShareable Nothing: "EL2 and EL2&0, everything";
            VAE2OS = 4 1 1 OuterShareable Address: "EL2 by address (and ASID in EL2&0), all levels";
            ALLE1OS = 4 1 4 OuterShareable Nothing: "EL1&0, everything, every VMID";
            VALE2OS = 4 1 5 OuterShareable Address: "EL2 by address (and ASID in EL2&0), last level";
            VMALLS12E1OS = 4 1 6 OuterShareable Nothing: "Both stages of EL1&0, everything, current VMID";
            RVAE2 = 4 6 1 NonShareable Range: "EL2 by range, all levels";
            RVALE2 = 4 6 5 NonShareable Range: "EL2 by range, last level";
            RVAE2IS = 4 2 1 InnerShareable Range: "EL2 by range, all levels";
            RVALE2IS = 4 2 5 InnerShareable Range: "EL2 by range, last level";
            RVAE2OS = 4 5 1 OuterShareable Range: "EL2 by range, all levels";
            RVALE2OS = 4 5 5 OuterShareable Range: "EL2 by range, last level";
            IPAS2E1IS = 4 0 1 InnerShareable Intermediate: "Stage 2 by intermediate address, all levels, current VMID";
            RIPAS2E1IS = 4 0 2 InnerShareable IntermediateRange: "Stage 2 by range, all levels, current VMID";
            IPAS2LE1IS = 4 0 5 InnerShareable Intermediate: "Stage 2 by intermediate address, last level, current VMID";
            RIPAS2LE1IS = 4 0 6 InnerShareable IntermediateRange: "Stage 2 by range, last level, current VMID";
            IPAS2E1OS = 4 4 0 OuterShareable Intermediate: "Stage 2 by intermediate address, all levels, current VMID";
            IPAS2E1 = 4 4 1 NonShareable Intermediate: "Stage 2 by intermediate address, all levels, current VMID";
            RIPAS2E1 = 4 4 2 NonShareable IntermediateRange: "Stage 2 by range, all levels, current VMID";
            RIPAS2E1OS = 4 4 3 OuterShareable IntermediateRange: "Stage 2 by range, all levels, current VMID";
            IPAS2LE1OS = 4 4 4 OuterShareable Intermediate: "Stage 2 by intermediate address, last level, current VMID";
            IPAS2LE1 = 4 4 5 NonShareable Intermediate: "Stage 2 by intermediate address, last level, current VMID";
            RIPAS2LE1 = 4 4 6 NonShareable IntermediateRange: "Stage 2 by range, last level, current VMID";
            RIPAS2LE1OS = 4 4 7 OuterShareable IntermediateRange: "Stage 2 by range, last level, current VMID";
        }
    };
}

macro_rules! names {
    (; $($name:ident = $op1:literal $crm:literal $op2:literal $domain:ident $operand:ident: $doc:literal;)*) => {
        /// The TLBIs, by the manual's names.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum TlbiName {
            $(#[doc = concat!($doc, "; ", stringify!($domain), ".")] $name,)*
        }

        impl TlbiName {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Upper case.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            const fn fields(self) -> (u8, u8, u8) {
                match self { $(Self::$name => ($op1, $crm, $op2),)* }
            }

            // A row with an encoding that another has could not be reached, and does not compile.
            #[deny(unreachable_patterns)]
            const fn decode(op1: u8, crm: u8, op2: u8) -> Option<Self> {
                match (op1, crm, op2) {
                    $(($op1, $crm, $op2) => Some(Self::$name),)*
                    _ => None,
                }
            }

            const fn domain(self) -> Domain {
                match self { $(Self::$name => Domain::$domain,)* }
            }

            #[inline]
            const fn operand(self) -> TlbiOperand {
                match self { $(Self::$name => TlbiOperand::$operand,)* }
            }
        }

        impl TlbiOp {
            $(#[doc = concat!($doc, "; ", stringify!($domain), ".")] pub const $name: Self = Self::new(TlbiName::$name);)*
        }
    };
}
for_each_tlbi!(names);

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name_and_by_its_encoding() {
        assert_eq!(TlbiName::ALL.len(), 63);
        let mut found = 0;
        for packed in 0..=0x3fff_u16 {
            let (op1, crn) = ((packed >> 11) as u8, (packed >> 7) as u8 & 15);
            let (crm, op2) = ((packed >> 3) as u8 & 15, packed as u8 & 7);
            let Some(op) = TlbiOp::decode(op1, crn, crm, op2) else { continue };
            found += 1;
            assert_eq!(op.fields(), (op1, crn, crm, op2));
            assert_eq!(TlbiOp::find(&op.to_string()), Some(op));
            assert_eq!(TlbiOp::find(op.name().as_str()).map(TlbiOp::without_xs), Some(op.without_xs()));
        }
        assert_eq!(found, 2 * TlbiName::ALL.len());
        assert_eq!(TlbiOp::find("vae9"), None);
        assert_eq!(["é", "éxs"].map(TlbiOp::find), [None; 2]);
    }

    /// The manual names operations by what they do: the columns of the table say the same.
    #[test]
    fn the_columns_agree_with_the_names() {
        use TlbiOperand::{
            Address, AddressAnyAsid, Asid, Intermediate, IntermediateRange, Nothing, Range, RangeAnyAsid,
        };
        const PREFIXES: [(&str, TlbiOperand); 9] = [
            ("VMALL", Nothing),
            ("ALL", Nothing),
            ("ASID", Asid),
            ("VAA", AddressAnyAsid),
            ("VA", Address),
            ("RVAA", RangeAnyAsid),
            ("RVA", Range),
            ("IPAS2", Intermediate),
            ("RIPAS2", IntermediateRange),
        ];
        for name in TlbiName::ALL {
            let (op, text) = (TlbiOp::new(*name), name.as_str());
            let prefix = PREFIXES.iter().find(|(prefix, _)| text.starts_with(prefix));
            assert_eq!(Some(op.operand()), prefix.map(|(_, operand)| *operand), "{text}");
            assert!(!op.is_without_xs() && op.without_xs().is_without_xs(), "{text}");
            let domain = match &text[text.len() - 2..] {
                "IS" => Domain::InnerShareable,
                "OS" => Domain::OuterShareable,
                _ => Domain::NonShareable,
            };
            assert_eq!(op.domain(), domain, "{text}");
        }
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
            let (op1, crn, crm, op2) = op.fields();
            let fields = [(op1, 16), (crn, 12), (crm, 8), (op2, 5)].map(|(field, low)| u32::from(field) << low);
            let register = if op.takes_operand() { 0 } else { 31 };
            assert_eq!(fields.iter().fold(0xd508_0000 | register, |word, field| word | field), word, "{op}");
        }
    }
}
