//! Copying what a range maps into another page table, as a fork does: one walk edits the leaves here and writes them there.
//!
//! ```text
//!   here    │ A │ · │ B │ C │    edited in place: read-only, say      forgotten by the gather
//!             │       │   │
//!   there   │ a │ · │ b │ c │    the edited leaves, where holes were   no hardware walks it yet
//! ```
//! Leaves of every size are copied as they are. Each must lie in the range whole. What becomes of contiguous groups: [`Copier`].

use core::ops::{ControlFlow, Range};

use vmsa::{Address, Descriptor, Geometry, Granule, LeafSize, Level, PhysAddr};

use crate::alike::count_alike;
use crate::backlog::Backlog;
use crate::change::Refusal;
use crate::changes::{Copied, Edit, Editor, RunEdit, Terms, Writer, copy_back, copy_leading};
use crate::gather::Gather;
use crate::licence::Licence;
use crate::pieces::Pieces;
use crate::platform::{Platform, Slot};
use crate::regime::{Fields, Regime};
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Visit};

/// Runs of broken members that wait for the TLBs at once, beside the first.
const MORE_RUNS: usize = 7;

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
    /// range. `each` is given the leaves that are copied, in order: where the first leads, what it is, how large each is, and how many
    /// follow it at once that lead on from each other and are like it. Kept leaves stay as they are, and are not copied.
    ///
    /// Refused by [`Refusal::NotAttributes`] if what is named may not change in place; by [`Refusal::NeedsLicence`] if a
    /// leaf or contiguous group lies in the range in part, or a live group is not as asked and there is no licence, or is one whose dirty
    /// state hardware would manage no longer; by [`Refusal::AlreadyMapped`] if `there` is live; and by [`Refusal::ReserveShortBy`]
    /// unless `reserve` holds [`Self::tables_to_copy`]. Nothing has changed then.
    pub fn copy_to(
        &mut self,
        there: &mut PageTable<'_, G, R, P>,
        from: Range<R::Input>,
        CopyEdit { set, clear, licence }: CopyEdit<'_, R>,
        reserve: &mut Reserve,
        gather: &mut Gather<G, R>,
        mut each: impl FnMut(PhysAddr, Descriptor, LeafSize, usize),
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
        let tables = self.check_copy(start, end, edit, licence.is_some())?;
        reserve.check(self.platform, tables, self.geometry.layout())?;
        let mut none = Reserve::new();
        let mut copier = Copier {
            here: Editor::new(Terms { table: self, licence }, &mut none, gather),
            there,
            reserve,
            nothing: there.gather(),
            edit,
            is_breaking: self.is_live && !licence.is_some_and(Licence::is_in_place),
            stale: Stale::default(),
            broken: Backlog::default(),
        };
        let _ = self.walk::<()>(self.top, start, end, &mut |visit| {
            if visit.table(self.geometry).is_some() {
                return ControlFlow::Continue(Next::Enter);
            }
            ControlFlow::Continue(Next::Past(copier.copy(visit, end, &mut each)))
        });
        copier.finish();
        Ok(())
    }

    /// How many tables the copy of a range takes, or why there can be none.
    fn check_copy(&self, start: u64, end: u64, edit: Edit, is_licensed: bool) -> Result<usize, Refusal> {
        let across = (start < end && !self.has_whole_ends(start, end)).then_some(start);
        // Members may differ in what hardware marked, and may not in what they permit.
        let has_no_groups = self.is_live && !is_licensed || edit.makes_rights_of_marks(self.regime);
        let group = || has_no_groups.then(|| self.find_group(start, end, edit)).flatten();
        match across.or_else(group) {
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

    /// The slot of `level` on the way to `at`, in a table that is made if it is not there.
    fn slot_for(&self, level: Level, at: u64, reserve: &mut Reserve, gather: &mut Gather<G, R>) -> Slot {
        let nothing = Pieces { from: 0, to: 0, inside: None, outside: None };
        let mut end = self.find_end(at, at + 1);
        for _ in self.geometry.start().number()..level.number() {
            if end.level >= level {
                break;
            }
            Editor::new(Terms { table: self, licence: None }, reserve, gather).link(&end, &nothing);
            end = self.find_end(at, at + 1);
        }
        // An empty table may be in the slot.
        if end.level == level { end.slot } else { self.table_at(level, at).slot::<G>(at) }
    }
}

/// Copies leaves, a table's part at a time.
///
/// A contiguous group whose members differ in what they permit is misprogrammed (RQTRPM). Where leaves change size in place, a CPU that meets
/// it so finds what one of the members says, or a conflict, which the licence says is borne (RNGLXZ, RJQQTC): the members are edited as
/// other leaves are, keep the Contiguous bit, and all of them are forgotten at the end. Elsewhere the members are broken first, those of as many
/// tables at once as can be remembered:
///
/// ```text
///   here    │ A │ A │ A │ A │ ──▶ │ - │ - │ - │ - │ ──▶ DSB ISHST · TLBIs · DSB ISH · ISB ──▶ │ a │ a │ a │ a │
///   there   │ · │ · │ · │ · │ ──▶ │ a │ a │ a │ a │ ────────── what is made again ────────────────▲
/// ```
struct Copier<'c, G: Granule, R: Regime, P: Platform> {
    here: Editor<'c, G, R, P>,
    there: &'c PageTable<'c, G, R, P>,
    /// Tables for `there`, which leave nothing to forget.
    reserve: &'c mut Reserve,
    nothing: Gather<G, R>,
    edit: Edit,
    /// Whether members of groups that change are broken first.
    is_breaking: bool,
    stale: Stale,
    broken: Backlog<Broken, MORE_RUNS>,
}

/// Members side by side that are broken, here, and what is to become of them, there.
#[derive(Clone, Copy)]
struct Broken {
    slot: Slot,
    copy: Slot,
    count: usize,
}

/// A leaf that is to be copied.
struct Place {
    level: Level,
    at: u64,
    slot: Slot,
    into: Slot,
    leaf: Descriptor,
    /// How many slots there are from here on.
    left: usize,
}

impl<G: Granule, R: Regime, P: Platform> Copier<'_, G, R, P> {
    /// Copies the leaves of one table side by side, up to its end or that of the range: a walk's steps cost more than what is done here. Where
    /// the walk goes on.
    #[inline(always)]
    fn copy(&mut self, visit: &Visit, end: u64, each: &mut impl FnMut(PhysAddr, Descriptor, LeafSize, usize)) -> u64 {
        let (platform, level, shift) = (self.here.platform, visit.level, Geometry::<G>::shift(visit.level));
        let bytes = visit.end - visit.start;
        let last = self.here.geometry.table_end(level, visit.start).min((end + bytes - 1) & !(bytes - 1));
        let writer = self.here.writer();
        let mut run = RunEdit::new::<R::Attributes>(&writer, self.edit);
        let (mut at, mut slot, mut leaf) = (visit.start, visit.slot, visit.descriptor);
        let mut into: Option<Slot> = None;
        loop {
            let mut count = 1;
            if leaf.is_valid() {
                let (there, reserve, nothing) = (self.there, &mut *self.reserve, &mut self.nothing);
                let into = *into.get_or_insert_with(|| there.slot_for(level, at, reserve, nothing));
                let left = ((last - at) >> shift) as usize;
                count = self.copy_leaves(&mut run, &writer, &Place { level, at, slot, into, leaf, left }, each);
            }
            at += (count as u64) << shift;
            if at >= last {
                break;
            }
            (slot, into) = (slot.after(count), into.map(|slot| slot.after(count)));
            leaf = platform.load(slot);
            if leaf.is_table(level) {
                break;
            }
        }
        at
    }

    /// Copies the leaf at a place, and those that follow and are like it. How many.
    #[inline(always)]
    fn copy_leaves(
        &mut self,
        run: &mut RunEdit<'_, '_, P>,
        writer: &Writer<'_, P>,
        place: &Place,
        each: &mut impl FnMut(PhysAddr, Descriptor, LeafSize, usize),
    ) -> usize {
        let Place { level, at, slot, into, leaf, left } = *place;
        let (shift, size, layout) = (Geometry::<G>::shift(level), LeafSize::single(level), self.here.geometry.layout());
        let there = self.edit.apply(leaf);
        let is_broken = self.is_breaking && leaf.is_contiguous() && there != leaf;
        let here = if is_broken { broken(leaf) } else { there };
        let (places, copied) = ((slot, into), Copied { leaf, here, there });
        let leading = match level {
            _ if !slot.is_even() || !run.is_by_many() => 0,
            // A constant, by which a page takes half the instructions.
            Level::L3 => copy_leading(writer, places, copied, (G::SIZE_BYTES, left)),
            _ => copy_leading(writer, places, copied, (1 << shift, left)),
        };
        let (count, is_stale);
        if leading > 0 {
            each(layout.output(there, shift), there, size, leading);
            (count, is_stale) = (leading, here != leaf && writer.is_stale::<R::Attributes>(leaf, here));
        } else if is_broken {
            writer.replace(slot, leaf, broken);
            writer.make(into, there);
            each(layout.output(there, shift), there, size, 1);
            (count, is_stale) = (1, writer.is_stale::<R::Attributes>(leaf, here));
        } else {
            let way = self.here.platform.for_run();
            let copy = Writer::new(&way, self.there.regime, false);
            (count, is_stale) = run.step::<R::Attributes>(slot, leaf, left, |number, leaf| {
                copy.make(into.after(number), leaf);
                each(layout.output(leaf, shift), leaf, size, 1);
            });
        }
        if is_stale {
            // A TLB may hold a group by any member, for the addresses of all.
            let whole = LeafSize { level, contiguous: leaf.is_contiguous() }.size_bytes(G::PAGE_SIZE) - 1;
            let end = (at + ((count as u64) << shift) + whole) & !whole;
            let (here, last) = (&mut self.here, at + ((left as u64) << shift));
            self.stale.add(level, at & !whole, end.min(last), |level, from, to| here.forget(level, from, to));
        }
        if is_broken {
            self.note_broken(Broken { slot, copy: into, count });
        }
        count
    }

    fn note_broken(&mut self, more: Broken) {
        let joins =
            |last: &&mut Broken| last.slot.after(last.count) == more.slot && last.copy.after(last.count) == more.copy;
        if let Some(last) = self.broken.latest_mut().filter(joins) {
            last.count += more.count;
        } else if self.broken.push(more).is_err() {
            self.make_again();
            self.broken = Backlog::of(more);
        }
    }

    /// Makes what is broken what its copy is, once no TLB holds what it was.
    #[inline(never)]
    fn make_again(&mut self) {
        self.here.note_store();
        self.forget_stale();
        // Made while a TLB could hold the group by one member, the others would differ from that.
        self.here.gather.complete(self.here.platform);
        let (edit, writer) = (self.edit, self.here.writer());
        for &Broken { slot, copy, count } in core::mem::take(&mut self.broken).iter() {
            if !writer.is_marked {
                copy_back(&writer, (slot, copy), count);
                continue;
            }
            // What hardware has marked up to the break, which the copy was not told of, is final by now.
            for number in 0..count {
                let member = self.here.platform.load(slot.after(number)).bits() | Descriptor::VALID;
                let leaf = edit.apply(Descriptor::new(member));
                writer.make(slot.after(number), leaf);
                writer.make(copy.after(number), leaf);
            }
        }
        // Until walkers see them, which the gather sees to, an access faults, and its fault waits for who edits.
        self.here.note_store();
    }

    fn forget_stale(&mut self) {
        if let Some((level, from, to)) = self.stale.0.take() {
            self.here.forget(level, from, to);
        }
    }

    /// What is left is for the gather.
    fn finish(mut self) {
        if !self.broken.is_empty() {
            self.make_again();
        }
        self.forget_stale();
        self.here.note_store();
    }
}

/// A leaf that no walker finds, and that keeps all but bit 0.
const fn broken(leaf: Descriptor) -> Descriptor {
    Descriptor::new(leaf.bits() & !Descriptor::VALID)
}

/// What is to be forgotten next: leaves of one size, side by side.
#[derive(Default)]
struct Stale(Option<(Level, u64, u64)>);

impl Stale {
    /// A leaf joins; what it does not stand beside is forgotten by itself.
    #[inline(always)]
    fn add(&mut self, level: Level, start: u64, end: u64, forget: impl FnOnce(Level, u64, u64)) {
        match &mut self.0 {
            Some((its, from, to)) if (*from..=*to).contains(&start) && *its == level => *to = end,
            range => {
                if let Some((level, from, to)) = range.replace((level, start, end)) {
                    forget(level, from, to);
                }
            }
        }
    }
}
