//! Copying what a range maps into another page table, as a fork does: one walk edits the leaves here and writes them there.
//!
//! ```text
//!   here    │ A │ · │ B │ C │    edited in place: read-only, say      forgotten by the gather
//!             │       │   │
//!   there   │ a │ · │ b │ c │    the edited leaves, where holes were   no hardware walks it yet
//! ```
//! Leaves of every size are copied as they are. Each must lie in the range whole. What becomes of contiguous groups: [`crate::copier`].

use core::ops::{ControlFlow, Range};

use vmsa::{Address, Descriptor, Geometry, Granule, LeafSize, Level, PhysAddr};

use crate::alike::count_alike;
use crate::change::Refusal;
use crate::changes::{Edit, Editor, Terms};
use crate::copier::Copier;
use crate::counted::Counted;
use crate::gather::Gather;
use crate::licence::Licence;
use crate::platform::Platform;
use crate::regime::{Fields, Regime};
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::Next;

/// What becomes of leaves that are copied, here and there.
#[derive(Debug)]
pub struct CopyEdit<'l, R: Regime> {
    /// Bits to set.
    pub set: R::Attributes,
    /// Bits to clear, before the others are set.
    pub clear: R::Attributes,
    /// Why live contiguous groups may change, and how.
    pub licence: Option<&'l Licence<'l>>,
}

/// A copy that has been checked, and will be made.
#[derive(Debug)]
pub struct CopyPlan<'t, 'p, 'l, G: Granule, R: Regime, P: Platform, I> {
    table: &'t mut PageTable<'p, G, R, P>,
    from: I,
    edit: Edit,
    licence: Option<&'l Licence<'l>>,
    tables: usize,
}

impl<G: Granule, R: Regime, P: Platform, I: Iterator<Item = Range<R::Input>> + Clone> CopyPlan<'_, '_, '_, G, R, P, I> {
    /// How many tables it takes at most: as many as the ranges have here, but for the root.
    pub const fn tables(&self) -> usize {
        self.tables
    }

    /// Edits the leaves here and writes them `there`, which has the same shape, no hardware walks yet ([`PageTable::offline`]), and maps
    /// nothing of the ranges. `each` is given the leaves that are copied, in order: where the first leads, what it is, how large each is,
    /// and how many follow it at once that lead on from each other and are like it.
    ///
    /// Refused by [`Refusal::AlreadyMapped`] if `there` is live or of another shape, and by [`Refusal::ReserveShortBy`] unless `reserve` holds
    /// [`Self::tables`]. Nothing has changed then.
    pub fn apply(
        &mut self,
        there: &mut PageTable<'_, G, R, P>,
        reserve: &mut Reserve,
        gather: &mut Gather<G, R>,
        mut each: impl FnMut(PhysAddr, Descriptor, LeafSize, usize),
    ) -> Result<(), Refusal> {
        let Self { ref table, ref from, edit, licence, tables } = *self;
        if there.is_live || there.geometry != table.geometry {
            return Err(Refusal::AlreadyMapped(from.clone().next().map_or(0, |first| first.start.bits())));
        }
        reserve.check(table.platform, tables, table.geometry.layout())?;
        let mut none = Reserve::new();
        let editor = Editor::new(Terms { table, licence }, &mut none, gather);
        let mut copier = Copier::new(editor, there, reserve, edit);
        // No range is refused by now.
        for (start, end) in from.clone().flat_map(|range| table.offsets(&range)) {
            let _ = table.walk::<()>(table.top, start, end, &mut |visit| {
                if visit.table(table.geometry).is_some() {
                    return ControlFlow::Continue(Next::Enter);
                }
                ControlFlow::Continue(Next::Past(copier.copy(visit, end, &mut each)))
            });
        }
        copier.finish();
        Ok(())
    }
}

impl<'p, G: Granule, R: Regime, P: Platform> PageTable<'p, G, R, P> {
    /// The first leaf of a contiguous group in a range that an edit changes, if there is one.
    fn find_group(&self, from: u64, to: u64, edit: Edit) -> Option<u64> {
        let walked = self.walk(self.top, from, to, &mut |visit| {
            if visit.table(self.geometry).is_some() {
                return ControlFlow::Continue(Next::Enter);
            }
            let (bytes, table_end) = (visit.end - visit.start, self.geometry.table_end(visit.level, visit.start));
            if visit.descriptor.is_valid() && visit.descriptor.is_contiguous() {
                if edit.apply(visit.descriptor) != visit.descriptor {
                    return ControlFlow::Break(visit.from);
                }
                // Members may differ in what hardware marked; those that do not are passed at once.
                let most = ((table_end - visit.start) >> Geometry::<G>::shift(visit.level)) as usize;
                let (alike, _) = count_alike(self.platform, visit.slot, most, visit.descriptor, bytes, 0);
                return ControlFlow::Continue(Next::Past(visit.start + alike.max(1) as u64 * bytes));
            }
            // Where a leaf of no group stands, no group begins before the next boundary; where a hole stands, one may have begun.
            let group = LeafSize::group(visit.level).size_bytes(G::PAGE_SIZE);
            let is_last = visit.level == Level::L3 && visit.descriptor.is_valid();
            let next = if is_last { ((visit.start & !(group - 1)) + group).min(table_end) } else { visit.end };
            ControlFlow::Continue(Next::Past(next))
        });
        walked.break_value()
    }

    /// Plans to clear, then set attributes of what is mapped in ranges, as [`crate::Change::ProtectSparse`] does, and to write what came of it
    /// at the same addresses of another page table. The ranges come in order of address. Kept leaves stay as they are, and are not copied.
    ///
    /// Refused by [`Refusal::NotAttributes`] if what is named may not change in place; and by [`Refusal::NeedsLicence`] if a
    /// leaf or contiguous group lies in a range in part, or a live group is not as asked and there is no licence, or is one whose dirty
    /// state hardware would manage no longer.
    pub fn plan_copy<'t, 'l, I: Iterator<Item = Range<R::Input>> + Clone>(
        &'t mut self,
        from: I,
        CopyEdit { set, clear, licence }: CopyEdit<'l, R>,
    ) -> Result<CopyPlan<'t, 'p, 'l, G, R, P, I>, Refusal> {
        let edit = Edit { only: 0, set: self.attribute_bits(set)?, clear: self.attribute_bits(clear)? };
        let foreign = (edit.set | edit.clear) & !R::Attributes::IN_PLACE;
        if foreign != 0 {
            return Err(Refusal::NotAttributes(foreign));
        }
        let mut counted = Counted::default();
        for range in from.clone() {
            let (start, end) = self.offsets(&range)?;
            self.check_copy(start, end, edit, licence.is_some())?;
            self.count_tables(start, end, &mut counted);
        }
        Ok(CopyPlan { table: self, from, edit, licence, tables: counted.tables })
    }

    /// [`Self::plan_copy`] of one range, and [`CopyPlan::apply`].
    pub fn copy_to(
        &mut self,
        there: &mut PageTable<'_, G, R, P>,
        from: Range<R::Input>,
        edit: CopyEdit<'_, R>,
        reserve: &mut Reserve,
        gather: &mut Gather<G, R>,
        each: impl FnMut(PhysAddr, Descriptor, LeafSize, usize),
    ) -> Result<(), Refusal> {
        self.plan_copy(core::iter::once(from), edit)?.apply(there, reserve, gather, each)
    }

    /// Says why a range cannot be copied, if it cannot.
    fn check_copy(&self, start: u64, end: u64, edit: Edit, is_licensed: bool) -> Result<(), Refusal> {
        let across = (start < end && !self.has_whole_ends(start, end)).then_some(start);
        // Members may differ in what hardware marked, and may not in what they permit.
        let has_no_groups = self.is_live && !is_licensed || edit.makes_rights_of_marks(self.regime);
        let group = || has_no_groups.then(|| self.find_group(start, end, edit)).flatten();
        match across.or_else(group) {
            Some(at) => Err(Refusal::NeedsLicence(self.geometry.input(at))),
            None => Ok(()),
        }
    }

    /// Whether no leaf, and no group, lies across an end of the range.
    pub(crate) fn has_whole_ends(&self, start: u64, end: u64) -> bool {
        let is_across = |at: u64, boundary: u64| {
            let visit = self.find_end(at, end);
            let is_group = visit.descriptor.is_contiguous();
            let size = if is_group { LeafSize::group(visit.level) } else { LeafSize::single(visit.level) };
            visit.descriptor.is_valid() && boundary & (size.size_bytes(G::PAGE_SIZE) - 1) != 0
        };
        !is_across(start, start) && !is_across(end - 1, end)
    }
}
