//! What can be wrong with the layout of memory.

use thiserror::Error;
use vmsa::PhysAddr;

use super::kind::{Kind, MAX_RANGES};
use crate::range::{Bytes, PhysicalRange};
use crate::severity::Severity;

/// One thing wrong with the layout of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each variant's line says what its fields are")]
pub enum Problem {
    #[error("more than {} ranges, expected fewer; cannot go on", MAX_RANGES)]
    Full,
    #[error("more than {} ranges, expected fewer; the smallest free ones, {}, are unused", MAX_RANGES, Bytes(*bytes))]
    Forgotten { bytes: u64 },
    #[error(
        "{kind} {range} is not wholly in memory, expected it in a bank; {}",
        instead(*kind, "the part outside is not managed")
    )]
    NotInMemory { kind: Kind, range: PhysicalRange },
    #[error("{kind} {range} overlaps a no-map reservation, expected them apart; it is mapped all the same")]
    MustNotBeMapped { kind: Kind, range: PhysicalRange },
    #[error("initrd {initrd} overlaps {other}, expected them apart; the initrd is ignored")]
    InitrdOverlaps { initrd: PhysicalRange, other: Kind },
    #[error("{} at and above {limit} are out of reach, expected below; unused", Bytes(*bytes))]
    OutOfReach { bytes: u64, limit: PhysAddr },
    #[error("{kind} {range} is out of reach, expected below {limit}; {}", instead(*kind, "ignored"))]
    PartOutOfReach { kind: Kind, range: PhysicalRange, limit: PhysAddr },
    #[error("nothing is free, expected room for page tables at least; cannot go on")]
    NothingFree,
}

/// What is done without a piece of memory: nothing without the kernel's own.
const fn instead(kind: Kind, others: &'static str) -> &'static str {
    if matches!(kind, Kind::Image) { "cannot go on" } else { others }
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
