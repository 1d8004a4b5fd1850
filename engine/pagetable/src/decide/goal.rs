//! A change whose arguments are sound, in offsets.

use vmsa::{Address, Geometry, Granule, Level, PhysAddr};

use super::Edit;
use crate::change::{Change, Refusal};
use crate::pieces::Content;
use crate::regime::{Attributes, Regime};

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

/// The walks that a change takes, in order, or why its arguments are refused.
pub(crate) fn goals<G: Granule, R: Regime>(
    geometry: Geometry<G>,
    change: &Change<R>,
) -> Result<(Goal, Option<Goal>), Refusal> {
    let over = |from: &core::ops::Range<R::Input>, wanted, refuses_holes| {
        let (from, to) = offsets(geometry, from.start.bits(), from.end.bits())?;
        Ok(Goal { from, to, wanted, refuses_holes })
    };
    let edit = |from, only, set: R::Attributes, clear: R::Attributes, refuses_holes| {
        let (set, clear) = (attribute_bits::<G, _>(geometry, set)?, attribute_bits::<G, _>(geometry, clear)?);
        over(from, Wanted::Edit(Edit::Attributes { only, set, clear }), refuses_holes)
    };
    let goal = match change {
        Change::Map { from, to, attributes, largest } | Change::Remap { from, to, attributes, largest } => {
            let (first, last) = offsets(geometry, from.start.bits(), from.end.bits())?;
            let attributes = attribute_bits::<G, _>(geometry, *attributes)?;
            check_output::<G>(geometry, *to, last - first)?;
            let delta = to.bits().wrapping_sub(first);
            let content = Content { delta, attributes, is_kept: false, largest: *largest };
            let is_map = matches!(change, Change::Map { .. });
            let wanted = if is_map { Wanted::Map(content) } else { Wanted::Remap(content) };
            Ok(Goal { from: first, to: last, wanted, refuses_holes: false })
        }
        Change::Protect { from, set, clear } => edit(from, 0, *set, *clear, true),
        Change::Age { from } => {
            let clear = R::Attributes::ACCESS_FLAG;
            over(from, Wanted::Edit(Edit::Attributes { only: 0, set: 0, clear }), false)
        }
        Change::Clean { from } => {
            let (only, set, clear) = R::Attributes::CLEAN;
            over(from, Wanted::Edit(Edit::Attributes { only, set, clear }), false)
        }
        Change::Hide { from } => over(from, Wanted::Edit(Edit::Hide), true),
        Change::Show { from } => over(from, Wanted::Edit(Edit::Show), true),
        Change::Unmap { from } => over(from, Wanted::Edit(Edit::Remove), false),
        Change::UnmapMapped { from } => over(from, Wanted::Edit(Edit::Remove), true),
        Change::Split { at } => {
            let (from, _) = offsets(geometry, at.bits(), at.bits())?;
            Ok(Goal { from, to: from + G::SIZE_BYTES, wanted: Wanted::Split, refuses_holes: false })
        }
        Change::SplitToPages { from } => over(from, Wanted::Pages, false),
        Change::Collapse { from } => over(from, Wanted::Fold, false),
    }?;
    // Blocks that came of folding may be alike in their turn.
    let then = matches!(goal.wanted, Wanted::Fold).then_some(Goal { wanted: Wanted::Group, ..goal });
    Ok((goal, then))
}

impl Goal {
    /// The same, once it is known that nothing refuses it.
    pub(crate) const fn checked(self) -> Self {
        Self { refuses_holes: false, ..self }
    }
}

fn offsets<G: Granule>(geometry: Geometry<G>, start: u64, end: u64) -> Result<(u64, u64), Refusal> {
    for address in [start, end] {
        if address & (G::SIZE_BYTES - 1) != 0 {
            return Err(Refusal::Misaligned(address));
        }
    }
    geometry.offsets(start, end).ok_or(Refusal::OutOfRange(start))
}

/// The bits that a descriptor of this geometry can hold. LPA2 has no shareability in descriptors, so it is left out.
fn attribute_bits<G: Granule, A: Attributes>(geometry: Geometry<G>, attributes: A) -> Result<u64, Refusal> {
    let allowed = geometry.layout().attribute_mask(G::PAGE_SIZE, Level::L3);
    let bits = attributes.into();
    let foreign = bits & !allowed & !A::SHAREABILITY;
    if foreign == 0 { Ok(bits & allowed) } else { Err(Refusal::NotAttributes(foreign)) }
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
