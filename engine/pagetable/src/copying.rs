//! Copying what a range maps into another page table, as a fork does: one walk edits the leaves here and writes them there.
//!
//! ```text
//!   here    │ A │ · │ B │ C │    edited in place: read-only, say      forgotten by the gather
//!             │       │   │
//!   there   │ a │ · │ b │ c │    the edited leaves, where holes were   no hardware walks it yet
//! ```
//! Leaves of every size are copied as they are. Each must lie in the range whole. A contiguous group changes by a plan alone: one that is
//! as asked already is copied too.

use core::ops::{ControlFlow, Range};

use vmsa::{Address, Descriptor, Geometry, Granule, LeafSize, Level, PhysAddr};

use crate::alike::count_alike;
use crate::change::Refusal;
use crate::changes::{Edit, Editor, RunEdit, Terms, Writer};
use crate::gather::Gather;
use crate::pieces::Pieces;
use crate::platform::{Platform, Slot};
use crate::regime::{Fields, Regime};
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Table};

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// How many tables [`Self::copy_to`] takes at most for a range: as many as the range has here, but for the root.
    pub fn tables_to_copy(&self, from: Range<R::Input>) -> Result<usize, Refusal> {
        let (from, to) = self.offsets(&from)?;
        Ok(self.count_tables(from, to))
    }

    /// The same by offsets. Nothing that tables of pages hold is looked at: who copies many ranges counts for all of them first.
    fn count_tables(&self, from: u64, to: u64) -> usize {
        let mut tables = 0;
        let _ = self.walk::<()>(self.top, from, to, &mut |visit| {
            let below = visit.table(self.geometry);
            tables += usize::from(below.is_some());
            let leads_on = below.is_some_and(|below| below.level != Level::L3);
            ControlFlow::Continue(if leads_on { Next::Enter } else { Next::Past(visit.end) })
        });
        tables
    }

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

    /// Clears, then sets attributes of what is mapped in a range, as [`crate::Change::ProtectSparse`] does, and writes what came of it
    /// at the same addresses of `there`, which has the same shape, no hardware walks yet ([`Self::offline`]), and maps nothing of the
    /// range. `each` is given every leaf that is copied: where it leads, what it is, how large it is. Kept leaves stay as they are, and are not copied.
    ///
    /// Refused by [`Refusal::NotAttributes`] if what is named may not change in place; by [`Refusal::NeedsLicence`] if a
    /// leaf or contiguous group lies in the range in part, or is of a group and not as asked; by [`Refusal::AlreadyMapped`] if `there` is live; and by [`Refusal::ReserveShortBy`]
    /// unless `reserve` holds [`Self::tables_to_copy`]. Nothing has changed then.
    pub fn copy_to(
        &mut self,
        there: &mut PageTable<'_, G, R, P>,
        from: Range<R::Input>,
        (set, clear): (R::Attributes, R::Attributes),
        reserve: &mut Reserve,
        gather: &mut Gather<G, R>,
        mut each: impl FnMut(PhysAddr, Descriptor, LeafSize),
    ) -> Result<(), Refusal> {
        let edit = Edit { only: 0, set: self.attribute_bits(set)?, clear: self.attribute_bits(clear)? };
        let foreign = (edit.set | edit.clear) & !R::Attributes::IN_PLACE;
        if foreign != 0 {
            return Err(Refusal::NotAttributes(foreign));
        }
        let (start, end) = self.offsets(&from)?;
        if there.is_live || there.geometry != self.geometry {
            return Err(Refusal::AlreadyMapped(from.start.bits()));
        }
        let tables = self.check_copy(start, end, edit)?;
        reserve.check(self.platform, tables, self.geometry.layout())?;
        let (platform, geometry, mut none, mut nothing) =
            (self.platform, self.geometry, Reserve::new(), there.gather());
        let mut here = Editor::new(Terms { table: self, licence: None }, &mut none, gather);
        let (writer, mut stale) = (here.writer(), Stale::default());
        let _ = self.walk::<()>(self.top, start, end, &mut |visit| {
            if visit.table(geometry).is_some() {
                return ControlFlow::Continue(Next::Enter);
            }
            // The leaves of one table side by side, up to its end: a walk's steps cost more than what is done here.
            let (mut at, mut slot, mut old) = (visit.start, visit.slot, visit.descriptor);
            let mut into: Option<Slot> = None;
            let shift = Geometry::<G>::shift(visit.level);
            let (bytes, table_end) = (visit.end - visit.start, geometry.table_end(visit.level, visit.start));
            let last = table_end.min((end + bytes - 1) & !(bytes - 1));
            let mut run = RunEdit::new::<R::Attributes>(&writer, edit);
            loop {
                let mut count = 1;
                if old.is_valid() {
                    let into = *into
                        .get_or_insert_with(|| there.table_for(visit.level, at, reserve, &mut nothing).slot::<G>(at));
                    let (left, way) = (((last - at) >> shift) as usize, platform.for_run());
                    let copy = Writer::new(&way, there.regime, false);
                    let (done, is_stale) = run.step::<R::Attributes>(slot, old, left, |number, leaf| {
                        copy.make(into.after(number), leaf);
                        each(geometry.layout().output(leaf, shift), leaf, LeafSize::single(visit.level));
                    });
                    count = done;
                    if is_stale {
                        let to = at + ((count as u64) << shift);
                        stale.add(visit.level, at, to, |level, from, to| here.forget(level, from, to));
                    }
                }
                at += (count as u64) << shift;
                if at >= last {
                    break;
                }
                (slot, into) = (slot.after(count), into.map(|slot| slot.after(count)));
                old = platform.load(slot);
                if old.is_table(visit.level) {
                    break;
                }
            }
            ControlFlow::Continue(Next::Past(at))
        });
        if let Some((level, from, to)) = stale.0 {
            here.forget(level, from, to);
        }
        here.note_store();
        Ok(())
    }

    /// How many tables the copy of a range takes, or why there can be none.
    fn check_copy(&self, start: u64, end: u64, edit: Edit) -> Result<usize, Refusal> {
        let across = (start < end && !self.has_whole_ends(start, end)).then_some(start);
        match across.or_else(|| self.find_group(start, end, edit)) {
            Some(at) => Err(Refusal::NeedsLicence(self.geometry.input(at))),
            None => Ok(self.count_tables(start, end)),
        }
    }

    /// Whether no leaf, and no group, lies across an end of the range.
    fn has_whole_ends(&self, start: u64, end: u64) -> bool {
        let is_across = |at: u64, boundary: u64| {
            let visit = self.find_end(at, end);
            let is_group = visit.descriptor.is_contiguous();
            let size = if is_group { LeafSize::group(visit.level) } else { LeafSize::single(visit.level) };
            visit.descriptor.is_valid() && boundary & (size.size_bytes(G::PAGE_SIZE) - 1) != 0
        };
        !is_across(start, start) && !is_across(end - 1, end)
    }

    /// The table of `level` that holds the slot of `at`, made if it is not there.
    fn table_for(&self, level: Level, at: u64, reserve: &mut Reserve, gather: &mut Gather<G, R>) -> Table {
        let nothing = Pieces { from: 0, to: 0, inside: None, outside: None };
        for _ in self.geometry.start().number()..level.number() {
            let end = self.find_end(at, at + 1);
            if end.level < level {
                Editor::new(Terms { table: self, licence: None }, reserve, gather).link(&end, &nothing);
            }
        }
        self.table_at(level, at)
    }
}

/// What is to be forgotten next: leaves of one size, side by side.
#[derive(Default)]
struct Stale(Option<(Level, u64, u64)>);

impl Stale {
    /// A leaf joins; what it does not stand beside is forgotten by itself.
    #[inline(always)]
    fn add(&mut self, level: Level, start: u64, end: u64, forget: impl FnOnce(Level, u64, u64)) {
        match &mut self.0 {
            Some((its, _, to)) if *to == start && *its == level => *to = end,
            range => {
                if let Some((level, from, to)) = range.replace((level, start, end)) {
                    forget(level, from, to);
                }
            }
        }
    }
}
