//! The rules by number and name, and why two entries do not go together.

use core::fmt;

/// The rules. The numbers are those of the project's rule book, the names say what went wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// V1: entries overlap that must not be in a TLB together. (RWHZWS)
    Overlap,
    /// V2: a live descriptor was replaced where break-before-make is required. (RWHZWS, RDDMVT)
    BreakExpected,
    /// V3: memory, an ASID or a VMID was given away while an entry still refers to it.
    Reuse,
    /// V4: an access was taken to be revoked that an entry still grants.
    Revocation,
    /// V5: a plain store over a descriptor that hardware may be updating. (IGXGZY)
    LostUpdate,
    /// V6: a contiguous set is misprogrammed while it can be reached. (RQTRPM)
    Contiguous,
    /// V7: a TLBI whose encoding does not say what was meant.
    Encoding,
    /// V8: a CPU took away what it needs to go on.
    OwnGround,
    /// V9: a descriptor was used before it was sure to be visible. (RSPVBD)
    NotVisible,
    /// V10: a conflict abort was answered with an operation that need not resolve it. (RBLRKC)
    Recovery,
    /// V11: at BBM level 1, a new size with neither break-before-make nor the nT protocol in its order. (RMRRPW)
    NoTranslation,
    /// V12: stage 2 invalidated without stage 1 after it.
    StageOrder,
    /// Not wrong, but not needed.
    Lint(Lint),
}

/// Work that was not needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lint {
    /// No TLB can hold anything that this TLBI removes.
    NothingCached,
    /// Only leaves were cached: the last-level form would have done.
    LastLevelSuffices,
    /// Only this CPU can hold them: the local form would have done.
    LocalSuffices,
    /// The DSB had nothing to complete.
    NothingToComplete,
    /// The ISB had nothing to synchronize.
    NothingToSynchronize,
}

/// Why two entries must not be cached together. (The cases of RWHZWS)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// Memory type, cacheability or shareability.
    MemoryType,
    /// Output address, where one may be written or the contents differ.
    OutputAddress,
    /// Size, or a table and a block.
    Size,
    /// A global entry beside a non-global one.
    Global,
    /// The Contiguous bit.
    Contiguous,
    /// TnSZ, which a TLB may keep with what it holds: until that is invalidated, the old size may still be in effect.
    InputSize,
}

impl Rule {
    /// Its number in a few characters: `V1` to `V12`, or `lint`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Overlap => "V1",
            Self::BreakExpected => "V2",
            Self::Reuse => "V3",
            Self::Revocation => "V4",
            Self::LostUpdate => "V5",
            Self::Contiguous => "V6",
            Self::Encoding => "V7",
            Self::OwnGround => "V8",
            Self::NotVisible => "V9",
            Self::Recovery => "V10",
            Self::NoTranslation => "V11",
            Self::StageOrder => "V12",
            Self::Lint(_) => "lint",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Overlap => "V1: entries overlap that must not be cached together.",
            Self::BreakExpected => "V2: break-before-make expected.",
            Self::Reuse => "V3: given away while an entry still refers to it.",
            Self::Revocation => "V4: not revoked yet.",
            Self::LostUpdate => "V5: a plain store may lose what hardware wrote.",
            Self::Contiguous => "V6: misprogrammed contiguous set.",
            Self::Encoding => "V7: wrong encoding.",
            Self::OwnGround => "V8: a CPU took away what it needs.",
            Self::NotVisible => "V9: used before it was visible.",
            Self::Recovery => "V10: this does not resolve a conflict abort.",
            Self::NoTranslation => {
                "V11: a new size at BBM level 1, with neither break-before-make nor the nT protocol."
            }
            Self::StageOrder => "V12: stage 2 without stage 1 after it.",
            Self::Lint(Lint::NothingCached) => "Not needed: no TLB can hold what this removes.",
            Self::Lint(Lint::LastLevelSuffices) => "More than needed: only leaves can be cached.",
            Self::Lint(Lint::LocalSuffices) => "More than needed: only this CPU can hold them.",
            Self::Lint(Lint::NothingToComplete) => "Not needed: the DSB has nothing to complete.",
            Self::Lint(Lint::NothingToSynchronize) => "Not needed: the ISB has nothing to synchronize.",
        };
        write!(f, "{words}")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MemoryType => "memory type, cacheability or shareability (no BBM level allows it)",
            Self::OutputAddress => "output address, with one of them writable or the contents different",
            Self::Size => "size",
            Self::Global => "the nG bit: the new one is global",
            Self::Contiguous => "the Contiguous bit",
            Self::InputSize => "TnSZ, which a TLB may keep: the old size may still be in effect",
        })
    }
}
