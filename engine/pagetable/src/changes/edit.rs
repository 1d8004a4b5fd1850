//! Edits as data: what becomes of one leaf.

use vmsa::{Bits, Descriptor};

use crate::regime::{Fields, HardwareUpdates, Regime};

/// A function from leaf to leaf, as data: in leaves that have all bits of `only`, bits are cleared, then set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edit {
    pub(crate) only: Bits,
    pub(crate) clear: Bits,
    pub(crate) set: Bits,
}

impl Edit {
    /// Nothing: only its size may change.
    pub(crate) const KEEP: Self = Self { only: 0, clear: 0, set: 0 };
    /// It becomes invalid, and keeps all but bit 0.
    pub(crate) const MAKE_INVALID: Self = Self { clear: Descriptor::VALID, ..Self::KEEP };
    /// It becomes valid again.
    pub(crate) const MAKE_VALID: Self = Self { set: Descriptor::VALID, ..Self::KEEP };
    /// It becomes a hole.
    pub(crate) const REMOVE: Self = Self { clear: !0, ..Self::KEEP };

    /// The descriptor that a leaf becomes.
    #[inline(always)]
    pub(crate) const fn apply(self, leaf: Descriptor) -> Descriptor {
        let bits = leaf.bits();
        if bits & self.only == self.only { Descriptor::new(bits & !self.clear | self.set) } else { leaf }
    }

    /// Whether leaves become holes.
    #[inline(always)]
    pub(crate) const fn removes(self) -> bool {
        self.clear == !0
    }

    /// Whether valid leaves become invalid.
    #[inline(always)]
    pub(crate) const fn ends(self) -> bool {
        self.clear & Descriptor::VALID != 0
    }

    /// Whether nothing that leaves say of their translation changes.
    pub(crate) const fn is_of_validity(self) -> bool {
        self.removes() || (self.clear | self.set) & !Descriptor::VALID == 0
    }

    /// Whether what hardware marked as written becomes what may be written.
    pub(crate) fn makes_rights_of_marks<R: Regime>(self, regime: R) -> bool {
        let is_managed_no_longer = self.clear & !self.set & R::Attributes::DBM != 0;
        let stays = (self.clear | self.set) & R::Attributes::DIRTY == 0;
        regime.hardware_updates() == HardwareUpdates::DirtyState && is_managed_no_longer && stays
    }

    /// Whether a live leaf may change from `old` to `new`, which it made, without a break (RWHZWS).
    #[inline(always)]
    pub(crate) const fn is_in_place<A: Fields>(self, old: Descriptor, new: Descriptor) -> bool {
        self.removes() || (old.bits() ^ new.bits()) & !A::IN_PLACE & !Descriptor::VALID == 0
    }

    /// The bits in which leaves agree that change alike and in place, or not at all: of what then may stand in a run with one that
    /// changes in place, this edit changes the same bits, and TLBs may hold all or none. `None` if validity is what changes.
    pub(crate) const fn telling<A: Fields>(self) -> Option<Bits> {
        if self.removes() {
            return Some(Descriptor::TYPE | A::ACCESS_FLAG);
        }
        let changes = self.only | self.clear | self.set;
        if changes & Descriptor::VALID != 0 {
            return None;
        }
        Some(Descriptor::TYPE | Descriptor::CONTIGUOUS | A::ACCESS_FLAG | changes)
    }

    /// Whether `next`, which stands beside `leaf` at the same level, changes in place as `leaf` does.
    #[inline(always)]
    pub(crate) fn is_alike<A: Fields>(self, leaf: Descriptor, next: Descriptor) -> bool {
        let grouping = if self.ends() { 0 } else { Descriptor::CONTIGUOUS };
        let edited = self.apply(next);
        (leaf.bits() ^ next.bits()) & (Descriptor::TYPE | grouping) == 0
            && edited != next
            && self.is_in_place::<A>(next, edited)
            && (self.removes() || edited != Descriptor::INVALID)
    }
}
