//! Marks: what hardware writes into leaves on its own (DDI 0487, D8.5).
//!
//! ```text
//! accessed   the access flag is set                                        by HA
//! written    stage 1: AP[2] is clear, stage 2: S2AP[1] is set              by HD, in a leaf with DBM
//! ```
//! A mark is a bit at the place of the descriptor's bit, set where the leaf was accessed or written, in both stages.

use vmsa::{Bits, Descriptor};

use super::{Fields, Regime};

/// What hardware writes into leaves on its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum HardwareUpdates {
    /// Nothing.
    #[default]
    None,
    /// The access flag (HA = 1, HD = 0). DBM means nothing, and a leaf that forbids writing forbids it.
    AccessFlag,
    /// The access flag and the dirty state (HA = 1, HD = 1): a leaf with DBM may be written, and says then that it was. Where
    /// some CPUs do that and others do not, those that do not may write it from then on too.
    DirtyState,
}

/// Every mark that there is.
pub(crate) const fn all<A: Fields>() -> Bits {
    A::ACCESS_FLAG | A::DIRTY
}

/// The marks that hardware may write into a leaf with these bits. Leaves that differ by these alone are alike. Where hardware
/// does not manage the dirty state of a leaf, the other bit is the right to write, which no leaf gets from a neighbour.
#[inline(always)]
pub(crate) fn writable<R: Regime>(regime: R, bits: Bits) -> Bits {
    match regime.hardware_updates() {
        HardwareUpdates::None => 0,
        HardwareUpdates::DirtyState if bits & R::Attributes::DBM != 0 => all::<R::Attributes>(),
        _ => R::Attributes::ACCESS_FLAG,
    }
}

/// The marks of a leaf with these bits.
pub(crate) const fn of<A: Fields>(bits: Bits) -> Bits {
    (bits ^ A::CLEAN) & all::<A>()
}

/// The bits of a leaf with the marks that it has and those of `marks` that hardware may write.
#[inline(always)]
pub(crate) fn with<R: Regime>(regime: R, bits: Bits, marks: Bits) -> Bits {
    if marks == 0 {
        return bits;
    }
    let marks = marks & writable(regime, bits);
    bits & !marks | (marks ^ R::Attributes::CLEAN) & marks
}

/// `leaf` with what hardware has marked between `before` and `after`.
pub(crate) fn marked_since<R: Regime>(
    regime: R,
    leaf: Descriptor,
    before: Descriptor,
    after: Descriptor,
) -> Descriptor {
    let (before, after) = (of::<R::Attributes>(before.bits()), of::<R::Attributes>(after.bits()));
    Descriptor::new(with(regime, leaf.bits(), after & !before))
}
