//! What the 64 bits of a TLBI's operand select. (DDI 0487, C5.5 and D8.17; range forms: FEAT_TLBIRANGE)

use core::fmt;

use super::opcode::{Operation, What};
use crate::geometry::Granule;
use crate::registers::Features;

/// Why an operand selects nothing that software may rely on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Flaw {
    /// The instruction is UNDEFINED on this CPU: no such TLBI, or a feature it needs is missing.
    Undefined,
    /// A range with TG = 0b00: a reserved value, executed as a no-op.
    ReservedGranule,
    /// A range with a level hint whose base is not aligned to that level's block: UNPREDICTABLE. (ITYBWT)
    MisalignedBase,
    /// A level hint that is reserved for its granule: treated as no hint.
    ReservedHint,
    /// A range that runs past the end of its half of the address space.
    Wraps,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Undefined => {
                "there is no such TLBI at this exception level, or this CPU lacks the feature that has it"
            }
            Self::ReservedGranule => "the range's TG is 0, which is reserved",
            Self::MisalignedBase => "the range's base is not aligned to a block of the level in its TTL",
            Self::ReservedHint => "the level hint is reserved for its granule",
            Self::Wraps => "the range runs past the end of its half of the address space",
        })
    }
}

/// A decoded operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Invalidation {
    /// The instruction.
    pub operation: Operation,
    /// The ASID field.
    pub asid: u16,
    /// First address selected (input, or intermediate physical).
    pub first: u64,
    /// Last address selected.
    pub last: u64,
    /// The granule that the hint or the range names.
    pub granule: Option<Granule>,
    /// The level that the hint names.
    pub level: Option<i8>,
}

impl Invalidation {
    /// Decodes `operand`, executed where TCR.DS (or VTCR.DS) is `has_ds`, and says what is wrong with it.
    pub fn decode(
        operation: Operation,
        operand: u64,
        has_ds: bool,
        features: &Features,
    ) -> (Option<Self>, Option<Flaw>) {
        if operation.is_range && !features.range_tlbi || operation.is_nxs && !features.xs {
            return (None, Some(Flaw::Undefined));
        }
        let asid = (operand >> 48) as u16;
        match operation.what {
            What::Address | What::AddressAllAsids | What::Intermediate if operation.is_range => {
                Self::range(operation, operand, has_ds)
            }
            What::Address | What::AddressAllAsids | What::Intermediate => {
                Self::single(operation, operand, has_ds, features)
            }
            _ => (Some(Self { operation, asid, first: 0, last: u64::MAX, granule: None, level: None }), None),
        }
    }

    /// `[63:48] ASID, [47:44] TTL, [43:0] VA[55:12]` or `[47:44] TTL, [39:0] IPA[51:12]`.
    fn single(operation: Operation, operand: u64, has_ds: bool, features: &Features) -> (Option<Self>, Option<Flaw>) {
        let first = if operation.what == What::Intermediate {
            (operand & ((1 << 40) - 1)) << 12
        } else {
            sign_extended((operand & ((1 << 44) - 1)) << 12, 55)
        };
        let hint = if features.ttl { operand >> 44 & 0xf } else { 0 };
        let level = (hint & 3) as i8;
        let is_reserved = match hint >> 2 {
            0 => hint != 0,
            1 => level == 0 && !has_ds,
            2 => level == 0 || level == 1 && !has_ds,
            _ => level == 0,
        };
        let granule = if is_reserved { None } else { granule(hint >> 2) };
        let level = granule.map(|_| level);
        let asid = (operand >> 48) as u16;
        let decoded = Self { operation, asid, first, last: first | 0xfff, granule, level };
        (Some(decoded), is_reserved.then_some(Flaw::ReservedHint))
    }

    /// `[63:48] ASID, [47:46] TG, [45:44] SCALE, [43:39] NUM, [38:37] TTL, [36:0] BaseADDR`.
    fn range(operation: Operation, operand: u64, has_ds: bool) -> (Option<Self>, Option<Flaw>) {
        let Some(granule) = granule(operand >> 46 & 3) else {
            return (None, Some(Flaw::ReservedGranule));
        };
        // With DS = 1 the base counts 64 KiB units whatever the granule.
        let shift = if has_ds { 16 } else { granule.shift() };
        let base = (operand & ((1 << 37) - 1)) << shift;
        let first = if operation.what == What::Intermediate { base } else { sign_extended(base, 36 + shift) };
        let (scale, num, ttl) = (operand >> 44 & 3, operand >> 39 & 0x1f, (operand >> 37 & 3) as i8);
        if first & (alignment(granule, ttl, has_ds) - 1) != 0 {
            return (None, Some(Flaw::MisalignedBase));
        }
        let length = ((num + 1) << (5 * scale + 1)) << granule.shift();
        let end_of_half = if first >> 63 == 1 { u64::MAX } else { (1 << 55) - 1 };
        let last = first.saturating_add(length - 1);
        let wraps =
            last > end_of_half || first >> 63 == 1 && last == u64::MAX && first.checked_add(length - 1).is_none();
        let decoded = Self {
            operation,
            asid: (operand >> 48) as u16,
            first,
            last: last.min(end_of_half),
            granule: Some(granule),
            level: (ttl != 0).then_some(ttl),
        };
        (Some(decoded), wraps.then_some(Flaw::Wraps))
    }

    /// True when no address was given: the operation selects a whole context.
    pub const fn is_whole(&self) -> bool {
        matches!(self.operation.what, What::Asid | What::Vmall | What::VmallS12 | What::All)
    }
}

/// What ITYBWT asks of BaseADDR when TTL names `level`, in bytes.
const fn alignment(granule: Granule, level: i8, has_ds: bool) -> u64 {
    match (granule, level) {
        (Granule::Size4K, 1) => 1 << 30,
        (Granule::Size4K, 2) => 1 << 21,
        (Granule::Size16K, 1) if has_ds => 1 << 36,
        (Granule::Size16K, 2) => 1 << 25,
        (Granule::Size64K, 1) => 1 << 42,
        (Granule::Size64K, 2) => 1 << 29,
        _ => 1,
    }
}

const fn granule(field: u64) -> Option<Granule> {
    match field {
        1 => Some(Granule::Size4K),
        2 => Some(Granule::Size16K),
        3 => Some(Granule::Size64K),
        _ => None,
    }
}

/// Copies bit `sign` into every bit above it.
const fn sign_extended(value: u64, sign: u8) -> u64 {
    let shift = 63 - sign;
    ((value << shift) as i64 >> shift) as u64
}
