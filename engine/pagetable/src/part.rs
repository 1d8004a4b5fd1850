//! Parts: the tables below one slot of a page table, which one CPU edits while others edit other parts.
//!
//! ```text
//!   the page table   │ · │ ● │ ● │ · │      claims and releases go through it, changes outside of all parts too
//!                          │   └──────┐
//!                     ┌────▼───┐ ┌────▼───┐
//!                     │ part   │ │ part   │  each is edited by whoever holds it, with a reserve and a gather of its own
//!                     └────────┘ └────────┘
//! ```
//! The engine has no locks: the caller keeps each part, and the page table, in a lock of its own.

use core::ops::{ControlFlow, Range};

use vmsa::{Address, Descriptor, Granule, Level, PhysAddr};

use crate::change::{Change, Refusal};
use crate::changes::{Editor, Terms};
use crate::gather::Gather;
use crate::licence::Licence;
use crate::pieces::Pieces;
use crate::plan::Plan;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::view::View;
use crate::walk::{Next, Table};

/// The tables below one slot of a page table, claimed by [`PageTable::claim`]. Whoever holds it alone edits them; others may
/// edit the page table's other parts meanwhile, each with a [`Gather`] of its own.
///
/// A change that reaches outside is refused by [`Refusal::OutsidePart`]. The table that the slot leads to stays while the part
/// is claimed, whatever is unmapped: no part can take a table from under another.
#[derive(Debug)]
#[must_use = "a part that nobody releases stays claimed"]
pub struct Part<'p, G: Granule, R: Regime, P: Platform> {
    table: PageTable<'p, G, R, P>,
}

impl<'p, G: Granule, R: Regime, P: Platform> PageTable<'p, G, R, P> {
    /// Claims what one table of `level` translates, that which holds `at`. The tables on the way to it are made if they are not
    /// there, out of `reserve`, and are complete when `gather` is finished.
    ///
    /// By the claim the caller states that no other part has any of this range, and that until the release nobody changes it
    /// but through the part. Each claim and release is made by whoever holds the page table itself.
    ///
    /// Refused by [`Refusal::OutOfRange`]; by [`Refusal::AlreadyMapped`] where a leaf covers more than the part, or what is
    /// there is no table; by [`Refusal::OutsidePart`] if `level` is not below the root's; and as [`Plan::apply`] is if the
    /// reserve is short. Nothing has changed then.
    pub fn claim(
        &mut self,
        at: R::Input,
        level: Level,
        reserve: &mut Reserve,
        gather: &mut Gather<G, R>,
    ) -> Result<Part<'p, G, R, P>, Refusal> {
        let offset = self.geometry.offset(at.bits()).ok_or(Refusal::OutOfRange(at.bits()))?;
        if level <= self.top.level {
            return Err(Refusal::OutsidePart(at.bits()));
        }
        let end = self.find_end(offset, offset + 1);
        if end.level < level && end.descriptor != Descriptor::INVALID {
            return Err(Refusal::AlreadyMapped(at.bits()));
        }
        let missing = (level.number() - end.level.number()).max(0) as usize;
        reserve.check(self.platform, missing, self.geometry.layout())?;
        let nothing = Pieces { from: 0, to: 0, inside: None, outside: None };
        let mut editor = Editor::new(Terms { table: self, licence: None }, reserve, gather);
        for _ in 0..missing {
            let hole = self.find_end(offset, offset + 1);
            editor.link(&hole, &nothing);
        }
        Ok(Part { table: PageTable { top: self.table_at(level, offset), ..*self } })
    }

    /// Ends a claim. What the part mapped stays; if it maps nothing, its table is unlinked, and comes free with `gather`.
    pub fn release(&mut self, part: Part<'p, G, R, P>, gather: &mut Gather<G, R>) {
        let (top, geometry) = (part.table.top, self.geometry);
        let mut reserve = Reserve::new();
        let mut editor = Editor::new(Terms { table: self, licence: None }, &mut reserve, gather);
        let _ = self.walk::<()>(self.top, top.start, top.end(geometry), &mut |visit| {
            if visit.level.next() != Some(top.level) {
                return ControlFlow::Continue(Next::Enter);
            }
            editor.unlink_if_empty(visit);
            ControlFlow::Break(())
        });
    }

    /// The first address of a range that is outside of the part that is edited, if it is one.
    #[inline(always)]
    pub(crate) fn find_outside_part(&self, from: u64, to: u64) -> Option<u64> {
        let Self { geometry, top, .. } = *self;
        if top.level == geometry.start() {
            return None;
        }
        let end = top.end(geometry);
        let outside = if from < top.start { Some(from) } else { (to > end).then_some(end) };
        outside.map(|offset| geometry.input(offset))
    }

    /// The table of `level` on the way to `offset`, which is there.
    pub(crate) fn table_at(&self, level: Level, offset: u64) -> Table {
        let mut found = self.top;
        let _ = self.walk::<()>(self.top, offset, offset + 1, &mut |visit| {
            found = visit.table(self.geometry).unwrap_or(found);
            if found.level == level { ControlFlow::Break(()) } else { ControlFlow::Continue(Next::Enter) }
        });
        found
    }
}

impl<'p, G: Granule, R: Regime, P: Platform> Part<'p, G, R, P> {
    /// [`PageTable::plan`], for changes within the part.
    #[inline(always)]
    pub fn plan<'t, 'c>(
        &'t mut self,
        changes: &'c [Change<R>],
        licence: Option<&'t Licence<'t>>,
    ) -> Result<Plan<'t, 'p, 'c, G, R, P>, Refusal> {
        self.table.plan(changes, licence)
    }

    /// [`PageTable::protect_page`], for a page of the part.
    #[must_use = "a page that was not changed takes a plan"]
    #[inline(always)]
    pub fn protect_page(
        &mut self,
        page: R::Input,
        set: R::Attributes,
        clear: R::Attributes,
        licence: Option<&Licence<'_>>,
    ) -> bool {
        self.has(page) && self.table.protect_page(page, set, clear, licence)
    }

    /// [`PageTable::make_page_valid`], for a page of the part.
    #[must_use = "a page that was not changed takes a plan"]
    #[inline(always)]
    pub fn make_page_valid(&mut self, page: R::Input, is_valid: bool, licence: Option<&Licence<'_>>) -> bool {
        self.has(page) && self.table.make_page_valid(page, is_valid, licence)
    }

    /// [`PageTable::map_page`], for a page of the part.
    #[must_use = "a page that was not mapped takes a plan"]
    #[inline(always)]
    pub fn map_page(&mut self, page: R::Input, to: PhysAddr, attributes: R::Attributes) -> bool {
        self.has(page) && self.table.map_page(page, to, attributes)
    }

    fn has(&self, page: R::Input) -> bool {
        let Range { start, end } = self.range();
        page.bits().wrapping_sub(start.bits()) < end.bits().wrapping_sub(start.bits())
    }

    /// A gather for its changes.
    pub fn gather(&self) -> Gather<G, R> {
        self.table.gather()
    }

    /// The range that it translates; an end of 0 is that of the upper half.
    pub fn range(&self) -> Range<R::Input> {
        let PageTable { geometry, top, .. } = self.table;
        geometry.input(top.start).into()..geometry.input(top.end(geometry)).into()
    }

    /// A view of the whole page table.
    pub const fn view(&self) -> View<'p, G, R, P> {
        self.table.view()
    }
}
