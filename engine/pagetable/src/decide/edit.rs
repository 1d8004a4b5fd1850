//! What becomes of a leaf, or of a part of it.

use vmsa::{Bits, Descriptor, Geometry, Granule, LeafSize, Level};

use crate::pieces::{Content, Pieces};
use crate::regime::{Attributes, HardwareUpdates, Regime};

/// A function from leaf to leaf, as data: in leaves that have all bits of `only`, bits are cleared, then set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edit {
    pub(super) only: Bits,
    pub(super) clear: Bits,
    pub(super) set: Bits,
}

impl Edit {
    /// Nothing: only its size may change.
    pub(crate) const KEEP: Self = Self { only: 0, clear: 0, set: 0 };
    /// It becomes invalid, and keeps all but bit 0.
    pub(crate) const HIDE: Self = Self { clear: Descriptor::VALID, ..Self::KEEP };
    /// It becomes valid again.
    pub(crate) const SHOW: Self = Self { set: Descriptor::VALID, ..Self::KEEP };
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
    pub(crate) const fn is_in_place<A: Attributes>(self, old: Descriptor, new: Descriptor) -> bool {
        self.removes() || (old.bits() ^ new.bits()) & !A::IN_PLACE & !Descriptor::VALID == 0
    }

    /// Whether `next`, which stands beside `leaf` at the same level, changes in place as `leaf` does.
    #[inline(always)]
    pub(crate) fn is_alike<A: Attributes>(self, leaf: Descriptor, next: Descriptor) -> bool {
        let grouping = if self.ends() { 0 } else { Descriptor::CONTIGUOUS };
        let edited = self.apply(next);
        (leaf.bits() ^ next.bits()) & (Descriptor::TYPE | grouping) == 0
            && edited != next
            && self.is_in_place::<A>(next, edited)
            && (self.removes() || edited != Descriptor::INVALID)
    }
}

/// A part of a leaf, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) edit: Edit,
    /// The largest leaf that may hold it.
    pub(crate) largest: LeafSize,
}

impl Part {
    /// A part that stays as it is, with a boundary on either side.
    pub(crate) const fn kept(&self) -> Self {
        Self { edit: Edit::KEEP, ..*self }
    }

    /// The pieces of a leaf of `level` at `start`, of which this part is edited.
    #[inline(always)]
    pub(crate) fn pieces<G: Granule>(
        &self,
        geometry: Geometry<G>,
        leaf: Descriptor,
        level: Level,
        start: u64,
    ) -> Pieces {
        let edited = || Content { largest: self.largest, ..content(geometry, self.edit.apply(leaf), level, start) };
        let inside = (!self.edit.removes()).then(edited);
        Pieces { from: self.from, to: self.to, inside, outside: Some(content(geometry, leaf, level, start)) }
    }
}

/// What a leaf of `level` at `start` holds, valid or kept.
pub(crate) fn content<G: Granule>(geometry: Geometry<G>, leaf: Descriptor, level: Level, start: u64) -> Content {
    let layout = geometry.layout();
    Content {
        delta: layout.output(leaf, Geometry::<G>::shift(level)).bits().wrapping_sub(start),
        // Of a block's bits those that would be output address in a page are left behind: they are RES0, or nT.
        attributes: leaf.bits() & layout.attribute_mask(G::PAGE_SIZE, Level::L3),
        is_kept: !leaf.is_valid(),
        largest: LeafSize::LARGEST,
    }
}
