//! A change whose arguments are sound, in offsets.

use core::ops::Range;

use vmsa::{Address, Bits, Geometry, Granule, Layout, LeafSize, Level, PhysAddr};

use super::Edit;
use crate::change::{Change, Refusal};
use crate::pieces::Content;
use crate::regime::{Fields, Regime};

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

/// The first walk that a change takes, or why its arguments are refused.
#[inline(always)]
pub(crate) fn goal<G: Granule, R: Regime>(geometry: Geometry<G>, change: &Change<R>) -> Result<Goal, Refusal> {
    let (range, wanted, refuses_holes) = match change {
        Change::Map { from, to, attributes, largest } => {
            (from, Wanted::Map(content::<G, R>(geometry, from, *to, *attributes, *largest)?), false)
        }
        Change::Remap { from, to, attributes, largest } => {
            (from, Wanted::Remap(content::<G, R>(geometry, from, *to, *attributes, *largest)?), false)
        }
        Change::Protect { from, set, clear } => {
            (from, Wanted::Edit(protection::<G, R>(geometry.layout(), *set, *clear)?), true)
        }
        Change::Age { from } => {
            (from, Wanted::Edit(Edit { only: 0, set: 0, clear: R::Attributes::ACCESS_FLAG }), false)
        }
        Change::Clean { from } => {
            let (set, clear) = (R::Attributes::CLEAN, R::Attributes::DIRTY & !R::Attributes::CLEAN);
            (from, Wanted::Edit(Edit { only: R::Attributes::DBM, set, clear }), false)
        }
        Change::MakeInvalid { from } => (from, Wanted::Edit(Edit::MAKE_INVALID), true),
        Change::MakeValid { from } => (from, Wanted::Edit(Edit::MAKE_VALID), true),
        Change::Unmap { from } => (from, Wanted::Edit(Edit::REMOVE), false),
        Change::UnmapMapped { from } => (from, Wanted::Edit(Edit::REMOVE), true),
        Change::Split { at } => {
            let (from, _) = offsets(geometry, at.bits(), at.bits())?;
            return Ok(Goal { from, to: from + G::SIZE_BYTES, wanted: Wanted::Split, refuses_holes: false });
        }
        Change::SplitToPages { from } => (from, Wanted::Pages, false),
        Change::Collapse { from } => (from, Wanted::Fold, false),
    };
    let (from, to) = offsets(geometry, range.start.bits(), range.end.bits())?;
    Ok(Goal { from, to, wanted, refuses_holes })
}

/// What sets and clears attributes, or why it is refused.
#[inline(always)]
fn protection<G: Granule, R: Regime>(
    layout: Layout,
    set: R::Attributes,
    clear: R::Attributes,
) -> Result<Edit, Refusal> {
    let bits = |attributes| attribute_bits::<G, R>(layout, attributes);
    Ok(Edit { only: 0, set: bits(set)?, clear: bits(clear)? })
}

impl Goal {
    /// What becomes of each leaf, if that is all the change does.
    #[inline(always)]
    pub(crate) const fn edit(&self) -> Option<Edit> {
        match self.wanted {
            Wanted::Edit(edit) => Some(edit),
            _ => None,
        }
    }

    /// The walk that follows, if there is one: blocks that came of folding may be alike in their turn.
    pub(crate) fn then(&self) -> Option<Self> {
        matches!(self.wanted, Wanted::Fold).then_some(Self { wanted: Wanted::Group, ..*self })
    }

    /// The same, once it is known that nothing refuses it.
    pub(crate) const fn checked(self) -> Self {
        Self { refuses_holes: false, ..self }
    }
}

#[inline(always)]
fn offsets<G: Granule>(geometry: Geometry<G>, start: u64, end: u64) -> Result<(u64, u64), Refusal> {
    if (start | end) & (G::SIZE_BYTES - 1) != 0 {
        let is_start = start & (G::SIZE_BYTES - 1) != 0;
        return Err(Refusal::Misaligned(if is_start { start } else { end }));
    }
    geometry.offsets(start, end).ok_or_else(|| Refusal::of_range(geometry, start, end))
}

/// The bits that a descriptor of this geometry can hold. LPA2 has no shareability in descriptors, so it is left out.
#[inline(always)]
fn attribute_bits<G: Granule, R: Regime>(layout: Layout, attributes: R::Attributes) -> Result<Bits, Refusal> {
    let allowed = layout.attribute_mask(G::PAGE_SIZE, Level::L3) & !R::ABSENT;
    let bits = attributes.into();
    let foreign = bits & !allowed & !R::Attributes::SHAREABILITY;
    if foreign == 0 { Ok(bits & allowed) } else { Err(Refusal::NotAttributes(foreign)) }
}

/// What a range is to hold, if there is room for its output addresses.
fn content<G: Granule, R: Regime>(
    geometry: Geometry<G>,
    range: &Range<R::Input>,
    to: PhysAddr,
    attributes: R::Attributes,
    largest: LeafSize,
) -> Result<Content, Refusal> {
    let (from, end) = offsets(geometry, range.start.bits(), range.end.bits())?;
    let attributes = attribute_bits::<G, R>(geometry.layout(), attributes)?;
    check_output::<G>(geometry, to, end - from)?;
    Ok(Content { delta: to.bits().wrapping_sub(from), attributes, is_kept: false, largest })
}

fn check_output<G: Granule>(geometry: Geometry<G>, to: PhysAddr, bytes: u64) -> Result<(), Refusal> {
    if !to.is_aligned(G::SIZE_BYTES) {
        return Err(Refusal::MisalignedOutput(to));
    }
    let limit = 1 << geometry.layout().output_bits();
    if to.bits().checked_add(bytes).is_none_or(|end| end > limit) {
        return Err(Refusal::OutputTooWide(to));
    }
    Ok(())
}
