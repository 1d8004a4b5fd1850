//! Moving leaves to another range of the same page table.
//!
//! ```text
//!   from   │ A │ · │ B │ ──▶ │ a │ · │ b │ ──▶ TLBs forget ──▶ │ · │ · │ · │      a: A but for bit 0
//!   to     │ · │ · │ · │                                  └──▶ │ A │ · │ B │      in tables that were counted before
//! ```
//! Hardware marks no invalid leaf: its marks are final once TLBs have forgotten the leaf, and they move with it. No list of leaves is
//! needed, and nothing can fail behind the first store.

use core::convert::Infallible;
use core::ops::{ControlFlow, Range};

use vmsa::{Address, Descriptor, Geometry, Granule, Level, Meaning};

use crate::alike::count_alike;
use crate::change::Refusal;
use crate::changes::{Edit, Editor, Goal, Terms};
use crate::gather::Gather;
use crate::pieces::Content;
use crate::plan::apply_from;
use crate::platform::{Platform, Slot};
use crate::regime::{Regime, marks};
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Visit};

/// A move, in offsets.
#[derive(Clone, Copy)]
struct Move {
    start: u64,
    end: u64,
    /// What is added to an offset, modulo 2^64.
    distance: u64,
}

impl Move {
    const fn target(&self, offset: u64) -> u64 {
        offset.wrapping_add(self.distance)
    }
}

/// Tables that a move needs and that are not there yet.
#[derive(Default)]
struct Needed {
    tables: usize,
    /// For each level the number of the first table that is not counted yet: targets come in order of address.
    next: [u64; Level::ALL.len()],
}

/// Moves leaves that are kept by now.
struct Mover<'m, G: Granule, R: Regime, P: Platform> {
    editor: Editor<'m, G, R, P>,
    it: Move,
    /// The slot of the last page in the target, its offset, and where its table ends.
    last: Option<(Slot, u64, u64)>,
    has_moved: bool,
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// Counts the tables that [`Self::move_leaves`] takes at most, refused as there. Tables of pages are not looked into.
    pub fn tables_to_move(&self, from: Range<R::Input>, to: R::Input) -> Result<usize, Refusal> {
        self.count_needed(self.find_move(&from, to)?)
    }

    /// Moves the leaves of a range to `to`, and returns whether there were any. Blocks and contiguous groups stay as large as the
    /// target's alignment and the bound of the page table allow; kept leaves become valid. Tables that hold nothing but the range come
    /// free. The move is complete when `gather` is finished.
    ///
    /// # Errors
    /// [`Refusal::Overlap`] if the target meets the range, [`Refusal::AlreadyMapped`] if something is in it,
    /// [`Refusal::NeedsLicence`] if a leaf or contiguous group lies in the range in part, [`Refusal::NotKeepable`], and
    /// [`Refusal::ReserveShortBy`] unless `reserve` holds [`Self::tables_to_move`]. Nothing has changed then.
    pub fn move_leaves(
        &mut self,
        from: Range<R::Input>,
        to: R::Input,
        reserve: &mut Reserve,
        gather: &mut Gather<G, R>,
    ) -> Result<bool, Refusal> {
        let it = self.find_move(&from, to)?;
        self.check_holes(it.target(it.start), it.target(it.end))?;
        reserve.check(self.platform, self.count_needed(it)?, self.geometry.layout())?;
        let (table, Move { start, end, .. }) = (&*self, it);
        let mut editor = Editor::new(Terms { table, licence: None }, reserve, gather);
        apply_from(&mut editor, &Goal::of_edit(start, end, Edit::MAKE_INVALID), table.top, start);
        // Until TLBs have forgotten a leaf, it would translate in both places, and hardware could still mark it.
        editor.gather.complete(table.platform);
        let mut mover = Mover { editor, it, last: None, has_moved: false };
        let _ =
            table.walk::<Infallible>(table.top, start, end, &mut |visit| ControlFlow::Continue(mover.move_leaf(visit)));
        apply_from(&mut mover.editor, &Goal::of_edit(start, end, Edit::REMOVE), table.top, start);
        Ok(mover.has_moved)
    }

    /// The move of a range whose ends no leaf crosses, to a target beside it.
    fn find_move(&self, from: &Range<R::Input>, to: R::Input) -> Result<Move, Refusal> {
        let (start, end) = self.offsets(from)?;
        let to_end = to.bits().wrapping_add(end - start);
        let (target, target_end) = self.offsets(&(to..to_end.into()))?;
        if start < target_end && target < end {
            return Err(Refusal::Overlap(self.geometry.input(start.max(target))));
        }
        if start < end && !self.has_whole_ends(start, end) {
            return Err(Refusal::NeedsLicence(self.geometry.input(start)));
        }
        Ok(Move { start, end, distance: target.wrapping_sub(start) })
    }

    fn check_holes(&self, start: u64, end: u64) -> Result<(), Refusal> {
        let walked = self.walk(self.top, start, end, &mut |visit| {
            if visit.table(self.geometry).is_some() {
                return ControlFlow::Continue(Next::Enter);
            }
            if visit.descriptor != Descriptor::INVALID {
                return ControlFlow::Break(Refusal::AlreadyMapped(self.geometry.input(visit.from)));
            }
            ControlFlow::Continue(Next::Past(visit.end))
        });
        walked.break_value().map_or(Ok(()), Err)
    }

    /// Counts the tables that the leaves of a move need in its target, as if every table of pages were full.
    fn count_needed(&self, it: Move) -> Result<usize, Refusal> {
        let mut needed = Needed::default();
        let walked = self.walk(self.top, it.start, it.end, &mut |visit| {
            let level = match visit.table(self.geometry) {
                Some(below) if below.level != Level::L3 => return ControlFlow::Continue(Next::Enter),
                Some(_) => Level::L3,
                None => match self.valid_leaf(visit) {
                    None => return ControlFlow::Continue(Next::Past(visit.end)),
                    Some(leaf) if leaf.bits() & !Descriptor::VALID & !Descriptor::CONTIGUOUS == 0 => {
                        return ControlFlow::Break(Refusal::NotKeepable(self.geometry.input(visit.start)));
                    }
                    Some(leaf) => self.level_of(visit.level, &self.moved_content(it, &visit.with(leaf))),
                },
            };
            needed.add(self, level, it.target(visit.from), it.target(visit.to));
            ControlFlow::Continue(Next::Past(visit.end))
        });
        walked.break_value().map_or(Ok(needed.tables), Err)
    }

    /// The level of the leaves that content becomes which was a leaf of `level`.
    fn level_of(&self, level: Level, content: &Content) -> Level {
        let mut fitting = Level::ALL.into_iter().filter(|&below| below >= level);
        fitting.find(|&level| content.fits(self.geometry, level)).unwrap_or(Level::L3)
    }

    /// The leaf at `visit`, valid or kept, as it would be if it were valid.
    fn valid_leaf(&self, visit: &Visit) -> Option<Descriptor> {
        let leaf = Descriptor::new(visit.descriptor.bits() | Descriptor::VALID);
        let meaning = leaf.meaning(G::PAGE_SIZE, self.geometry.layout(), visit.level);
        (visit.descriptor != Descriptor::INVALID && matches!(meaning, Meaning::Leaf(..))).then_some(leaf)
    }

    /// What the leaf at `visit` holds, in the target.
    fn moved_content(&self, it: Move, visit: &Visit) -> Content {
        let content = self.content(visit);
        Content { delta: content.delta.wrapping_sub(it.distance), ..content }
    }
}

impl Needed {
    /// Counts the tables for leaves of `level` from `start` to `end` that are neither there nor counted.
    fn add<G: Granule, R: Regime, P: Platform>(
        &mut self,
        table: &PageTable<'_, G, R, P>,
        level: Level,
        start: u64,
        end: u64,
    ) {
        let levels = Level::ALL.into_iter().zip(&mut self.next);
        for (its, next) in levels.filter(|(its, _)| table.top.level < *its && *its <= level) {
            let shift = Geometry::<G>::shift(its) + G::INDEX_BITS;
            let lacks = |number: &u64| table.find_end(number << shift, (number << shift) + 1).level < its;
            let (first, last) = ((start >> shift).max(*next), (end - 1) >> shift);
            self.tables += (first..=last).filter(lacks).count();
            *next = last + 1;
        }
    }
}

impl<G: Granule, R: Regime, P: Platform> Mover<'_, G, R, P> {
    /// Moves the kept leaf at `visit`, or the contiguous group that begins there.
    fn move_leaf(&mut self, visit: &Visit) -> Next {
        let (table, platform) = (self.editor.terms.table, self.editor.platform);
        if visit.table(self.editor.geometry).is_some() {
            return Next::Enter;
        }
        let Some(leaf) = table.valid_leaf(visit) else { return Next::Past(visit.end) };
        let members = self.members(visit, leaf);
        let end = visit.start + members as u64 * (visit.end - visit.start);
        let at = self.it.target(visit.start);
        let slot = if visit.level == Level::L3 && members == 1 { self.page_slot(at) } else { None };
        if let Some(slot) = slot {
            self.editor.make(slot, Descriptor::new(leaf.bits() & !Descriptor::CONTIGUOUS));
        } else {
            // Each mark of a member is true of all, also where the members become leaves of their own.
            let bits = (0..members).map(|number| platform.load(visit.slot.after(number)).bits());
            let marks = bits.fold(0, |all, bits| all | marks::of::<R::Attributes>(bits));
            let marked = Descriptor::new(marks::with(table.regime, leaf.bits(), marks));
            let content = table.moved_content(self.it, &visit.with(marked));
            apply_from(&mut self.editor, &Goal::of_map(at, self.it.target(end), content), table.top, at);
        }
        (0..members).for_each(|number| self.editor.make(visit.slot.after(number), Descriptor::INVALID));
        self.has_moved = true;
        Next::Past(end)
    }

    /// How many leaves from `visit` on are one contiguous group; 1 if it is none, or others left it in pieces.
    fn members(&self, visit: &Visit, leaf: Descriptor) -> usize {
        let entries = self.editor.geometry.entries(visit.level);
        let order = G::PAGE_SIZE.contiguous_shift(visit.level).filter(|order| 1 << order <= entries);
        let Some(order) = order.filter(|_| leaf.is_contiguous()) else { return 1 };
        let bytes = visit.end - visit.start;
        if visit.start & ((bytes << order) - 1) != 0 {
            return 1;
        }
        let hardware = marks::writable(self.editor.regime, leaf.bits());
        let (alike, _) = count_alike(self.editor.platform, visit.slot, 1 << order, visit.descriptor, bytes, hardware);
        if alike == 1 << order { alike } else { 1 }
    }

    /// The slot of a page in the target, if its table is there.
    fn page_slot(&mut self, at: u64) -> Option<Slot> {
        if let Some((slot, from, end)) = self.last
            && (from..end).contains(&at)
        {
            return Some(slot.after(((at - from) >> G::SHIFT) as usize));
        }
        let found = self.editor.terms.table.find_end(at, at + 1);
        let is_there = found.level == Level::L3;
        self.last = is_there.then(|| (found.slot, at, self.editor.geometry.table_end(Level::L3, at)));
        is_there.then_some(found.slot)
    }
}
