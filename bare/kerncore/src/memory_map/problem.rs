//! What can be wrong with the layout of memory.

use core::fmt;

use vmsa::PhysAddr;

use super::kind::{Kind, MAX_RANGES};
use crate::range::{Bytes, PhysicalRange};
use crate::severity::Severity;

/// One thing wrong with the layout of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's line in Display says what its fields are")]
pub enum Problem {
    Full,
    Forgotten { bytes: u64 },
    NotInMemory { kind: Kind, range: PhysicalRange },
    MustNotBeMapped { kind: Kind, range: PhysicalRange },
    InitrdOverlaps { initrd: PhysicalRange, other: Kind },
    OutOfReach { bytes: u64, limit: PhysAddr },
    PartOutOfReach { kind: Kind, range: PhysicalRange, limit: PhysAddr },
    NothingFree,
}

impl Problem {
    /// Whether the kernel can go on.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Full | Self::NothingFree => Severity::Fatal,
            Self::NotInMemory { kind: Kind::Image, .. } | Self::PartOutOfReach { kind: Kind::Image, .. } => {
                Severity::Fatal
            }
            _ => Severity::Warning,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(f, "more than {MAX_RANGES} ranges, expected fewer; cannot go on"),
            Self::Forgotten { bytes } => {
                write!(
                    f,
                    "more than {MAX_RANGES} ranges, expected fewer; the smallest free ones, {}, are unused",
                    Bytes(*bytes)
                )
            }
            Self::NotInMemory { kind, range } => {
                let instead = if *kind == Kind::Image { "cannot go on" } else { "the part outside is not managed" };
                write!(f, "{kind} {range} is not wholly in memory, expected it in a bank; {instead}")
            }
            Self::MustNotBeMapped { kind, range } => {
                write!(
                    f,
                    "{kind} {range} overlaps a no-map reservation, expected them apart; it is mapped all the same"
                )
            }
            Self::InitrdOverlaps { initrd, other } => {
                write!(f, "initrd {initrd} overlaps {other}, expected them apart; the initrd is ignored")
            }
            Self::OutOfReach { bytes, limit } => {
                write!(f, "{} at and above {limit} are out of reach, expected below; unused", Bytes(*bytes))
            }
            Self::PartOutOfReach { kind, range, limit } => {
                let instead = if *kind == Kind::Image { "cannot go on" } else { "ignored" };
                write!(f, "{kind} {range} is out of reach, expected below {limit}; {instead}")
            }
            Self::NothingFree => write!(f, "nothing is free, expected room for page tables at least; cannot go on"),
        }
    }
}
