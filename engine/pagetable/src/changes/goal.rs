//! A change whose arguments are sound, in offsets.

use core::ops::Range;

use vmsa::{Address, Bits, Granule, LeafSize, Level, PhysAddr};

use super::Edit;
use crate::change::{Change, Refusal};
use crate::pieces::Content;
use crate::platform::Platform;
use crate::regime::{Fields, Regime};
use crate::table::PageTable;

/// One walk's worth of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(super) wanted: Wanted,
    /// What is not mapped refuses the change.
    pub(super) refuses_holes: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Map(Content),
    Remap(Content),
    Edit(Edit),
    /// A boundary at `from`.
    Split,
    Pages,
    /// Tables become leaves.
    Fold,
    /// Leaves become contiguous groups.
    Group,
}

impl Goal {
    /// An edit of what is there between these offsets.
    pub(crate) const fn of_edit(from: u64, to: u64, edit: Edit) -> Self {
        Self { from, to, wanted: Wanted::Edit(edit), refuses_holes: false }
    }

    /// Content for holes between these offsets.
    pub(crate) const fn of_map(from: u64, to: u64, content: Content) -> Self {
        Self { from, to, wanted: Wanted::Map(content), refuses_holes: false }
    }

    /// What becomes of each leaf, if that is all the change does.
    #[inline(always)]
    pub(crate) const fn edit(&self) -> Option<Edit> {
        match self.wanted {
            Wanted::Edit(edit) => Some(edit),
            _ => None,
        }
    }

    /// Whether what is there goes, if anything is.
    pub(super) fn clears(&self) -> bool {
        !self.refuses_holes && self.edit().is_some_and(Edit::removes)
    }

    /// The walk that follows, if there is one: blocks that came of folding may be alike in their turn.
    pub(crate) fn then(&self) -> Option<Self> {
        matches!(self.wanted, Wanted::Fold).then_some(Self { wanted: Wanted::Group, ..*self })
    }

    /// Whether the range covers this one whole.
    pub(super) const fn covers(&self, start: u64, end: u64) -> bool {
        self.from <= start && end <= self.to
    }

    /// The same, once it is known that nothing refuses it.
    pub(crate) const fn checked(self) -> Self {
        Self { refuses_holes: false, ..self }
    }
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// The first walk that a change takes, or why its arguments are refused.
    #[inline(always)]
    pub(crate) fn goal(&self, change: &Change<R>) -> Result<Goal, Refusal> {
        let (range, wanted, refuses_holes) = match change {
            Change::Map { from, to, attributes, largest } => {
                (from, Wanted::Map(self.wanted_content(from, *to, *attributes, *largest)?), false)
            }
            Change::Remap { from, to, attributes, largest } => {
                (from, Wanted::Remap(self.wanted_content(from, *to, *attributes, *largest)?), false)
            }
            Change::Protect { from, set, clear } | Change::ProtectSparse { from, set, clear } => {
                let (set, clear) = (self.attribute_bits(*set)?, self.attribute_bits(*clear)?);
                (from, Wanted::Edit(Edit { only: 0, set, clear }), matches!(change, Change::Protect { .. }))
            }
            Change::Age { from } => {
                (from, Wanted::Edit(Edit { only: 0, set: 0, clear: R::Attributes::ACCESS_FLAG }), false)
            }
            Change::Clean { from } => {
                let (set, clear) = (R::Attributes::CLEAN, R::Attributes::DIRTY);
                (from, Wanted::Edit(Edit { only: R::Attributes::DBM, set, clear }), false)
            }
            Change::MakeInvalid { from } => (from, Wanted::Edit(Edit::MAKE_INVALID), true),
            Change::MakeValid { from } => (from, Wanted::Edit(Edit::MAKE_VALID), true),
            Change::Unmap { from } => (from, Wanted::Edit(Edit::REMOVE), false),
            Change::UnmapMapped { from } => (from, Wanted::Edit(Edit::REMOVE), true),
            Change::Split { at } => {
                let (from, _) = self.offsets(&(*at..*at))?;
                return Ok(Goal { from, to: from + G::SIZE_BYTES, wanted: Wanted::Split, refuses_holes: false });
            }
            Change::SplitToPages { from } => (from, Wanted::Pages, false),
            Change::Collapse { from } => (from, Wanted::Fold, false),
        };
        let (from, to) = self.offsets(range)?;
        Ok(Goal { from, to, wanted, refuses_holes })
    }

    #[inline(always)]
    pub(crate) fn offsets(&self, range: &Range<R::Input>) -> Result<(u64, u64), Refusal> {
        let (start, end) = (range.start.bits(), range.end.bits());
        let within = G::SIZE_BYTES - 1;
        if (start | end) & within != 0 {
            return Err(Refusal::Misaligned(if start & within != 0 { start } else { end }));
        }
        self.geometry.offsets(start, end).ok_or_else(|| Refusal::of_range(self.geometry, start, end))
    }

    /// The bits that a descriptor of this geometry can hold. LPA2 has no shareability in descriptors, so it is left out.
    #[inline(always)]
    pub(crate) fn attribute_bits(&self, attributes: R::Attributes) -> Result<Bits, Refusal> {
        let allowed = self.geometry.layout().attribute_mask(G::PAGE_SIZE, Level::L3) & !R::ABSENT;
        let bits = attributes.into();
        let foreign = bits & !allowed & !R::Attributes::SHAREABILITY;
        if foreign == 0 { Ok(bits & allowed) } else { Err(Refusal::NotAttributes(foreign)) }
    }

    /// What a range is to hold, if there is room for its output addresses.
    fn wanted_content(
        &self,
        range: &Range<R::Input>,
        to: PhysAddr,
        attributes: R::Attributes,
        largest: LeafSize,
    ) -> Result<Content, Refusal> {
        let (from, end) = self.offsets(range)?;
        let attributes = self.attribute_bits(attributes)?;
        if !to.is_aligned(G::SIZE_BYTES) {
            return Err(Refusal::MisalignedOutput(to));
        }
        let limit = 1 << self.geometry.layout().output_bits();
        if to.bits().checked_add(end - from).is_none_or(|end| end > limit) {
            return Err(Refusal::OutputTooWide(to));
        }
        let largest = largest.and(self.largest);
        Ok(Content { delta: to.bits().wrapping_sub(from), attributes, is_kept: false, largest })
    }
}
