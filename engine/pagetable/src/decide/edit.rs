//! What becomes of a leaf, or of a part of it.

use vmsa::{Descriptor, Geometry, Granule, LeafSize, Level};

use crate::pieces::{Content, Pieces};
use crate::regime::Attributes;

/// A function from leaf to leaf, as data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    /// Nothing: only its size may change.
    Keep,
    /// Bits are cleared, then set, in leaves that have all of `only`.
    Attributes { only: u64, set: u64, clear: u64 },
    /// It becomes invalid, and keeps all but bit 0.
    Hide,
    /// It becomes valid again.
    Show,
    /// It becomes a hole.
    Remove,
}

impl Edit {
    /// The descriptor that a leaf becomes.
    #[inline(always)]
    pub(crate) const fn apply(self, leaf: Descriptor) -> Descriptor {
        let bits = leaf.bits();
        Descriptor::new(match self {
            Self::Attributes { only, set, clear } if bits & only == only => bits & !clear | set,
            Self::Keep | Self::Attributes { .. } => bits,
            Self::Hide => bits & !Descriptor::VALID,
            Self::Show => bits | Descriptor::VALID,
            Self::Remove => 0,
        })
    }
}

impl Edit {
    /// Whether `next`, which stands beside `leaf` at the same level, changes in place as `leaf` does.
    #[inline(always)]
    pub(crate) const fn is_alike<A: Attributes>(self, leaf: Descriptor, next: Descriptor) -> bool {
        let edited = self.apply(next);
        let changed = edited.bits() ^ next.bits();
        let differs = leaf.bits() ^ next.bits();
        match self {
            Self::Remove => differs & Descriptor::TYPE == 0,
            Self::Hide => differs & Descriptor::TYPE == 0 && edited.bits() != 0,
            _ => {
                differs & (Descriptor::TYPE | Descriptor::CONTIGUOUS) == 0
                    && changed != 0
                    && changed & !A::IN_PLACE == 0
            }
        }
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
        Self { edit: Edit::Keep, ..*self }
    }

    /// The pieces of a leaf of `level` at `start`, of which this part is edited.
    pub(crate) fn pieces<G: Granule>(
        &self,
        geometry: Geometry<G>,
        leaf: Descriptor,
        level: Level,
        start: u64,
    ) -> Pieces {
        let inside = match self.edit {
            Edit::Remove => None,
            edit => Some(Content { largest: self.largest, ..content(geometry, edit.apply(leaf), level, start) }),
        };
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
