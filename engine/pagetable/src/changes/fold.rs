//! Folding: a table whose leaves are alike becomes the one leaf that they are together; an empty one goes.
//!
//! ```text
//!            ┌───┐                              ┌───┐
//!            │ ● │                              │ L │  level 2: one block
//!            └─┬─┘                              └───┘
//!   ┌───┬───┬──┴┬───┐           ▶
//!   │ l │l+1│l+2│l+3│  level 3: pages that are alike and lead to neighbours
//!   └───┴───┴───┴───┘
//!
//! not live            store the leaf over the table
//! break-before-make   break the table · forget all below it · store the leaf with the marks of all · the window ends
//! nT                  store the leaf with nT · forget all below · store it without
//! in place            store the leaf (what is below is forgotten when the gather is finished)
//! ```

use core::ops::ControlFlow;

use vmsa::{Descriptor, Granule, Level, TableAttributes};

use super::{Decision, Editor, State};
use crate::alike::count_alike;
use crate::invalidation::Depth;
use crate::licence::Method;
use crate::pieces::Content;
use crate::platform::Platform;
use crate::regime::{Regime, marks};
use crate::table::PageTable;
use crate::walk::{Next, Table, Visit};

/// What a table holds, all through.
#[derive(Clone, Copy)]
enum Uniform {
    Nothing,
    Content(Content),
    Mixed,
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// A table that `visit` leads to, which the range covers whole: it goes if it is empty, and becomes a leaf if it holds what
    /// one leaf could hold, be it in tables of its own where `is_deep` says so.
    #[inline(always)]
    pub(super) fn decide_fold(&self, visit: &Visit, is_deep: bool) -> Decision {
        let Some(table) = visit.table(self.geometry) else { return Decision::Pass };
        let uniform = if is_deep { self.uniform(table) } else { self.uniform_by_itself(table) };
        match uniform {
            Uniform::Nothing => Decision::Unlink(Descriptor::INVALID),
            Uniform::Content(content) if content.fits(self.geometry, visit.level) && !is_limited(visit) => {
                match content.leaf(self.geometry.layout(), visit.level, visit.start) {
                    Descriptor::INVALID => Decision::Enter,
                    leaf if content.is_kept => Decision::Unlink(leaf),
                    leaf => Decision::Fold(leaf),
                }
            }
            _ => Decision::Enter,
        }
    }

    /// Whether all leaves below the table that `visit` leads to hold this content, but for what hardware writes.
    pub(super) fn holds(&self, visit: &Visit, content: &Content) -> bool {
        let Some(table) = visit.table(self.geometry).filter(|_| !is_limited(visit)) else { return false };
        matches!(self.uniform(table), Uniform::Content(held) if self.are_alike(content, &held))
    }

    /// Whether all below the table that `visit` leads to is kept leaves and holes, in whose place a leaf means what it says.
    pub(super) fn holds_nothing_valid(&self, visit: &Visit) -> bool {
        let Some(table) = visit.table(self.geometry).filter(|_| !is_limited(visit)) else { return false };
        let walked = self.walk_all(table, &mut |visit| match self.state(visit) {
            State::Hole | State::Kept => ControlFlow::Continue(Next::Past(visit.end)),
            State::Table if !is_limited(visit) => ControlFlow::Continue(Next::Enter),
            State::Table | State::Leaf | State::Foreign => ControlFlow::Break(()),
        });
        walked.is_continue()
    }

    /// Whether neighbours could be one leaf: they differ by no more than what hardware writes.
    fn are_alike(&self, one: &Content, other: &Content) -> bool {
        let hardware = marks::writable(self.regime, one.attributes);
        one.delta == other.delta && one.is_kept == other.is_kept && (one.attributes ^ other.attributes) & !hardware == 0
    }

    /// What all that is below `table` holds together. The walk ends where it finds two things that no leaf can be.
    fn uniform(&self, table: Table) -> Uniform {
        // What stands below a table with limits of its own means less than it says.
        let (mut all, mut limited_to) = (None, table.start);
        let is_mixed = self.walk_all(table, &mut |visit| {
            let one = match self.state(visit) {
                State::Hole => Uniform::Nothing,
                State::Leaf | State::Kept if visit.start >= limited_to => Uniform::Content(self.content(visit)),
                State::Table => {
                    limited_to = if is_limited(visit) { limited_to.max(visit.end) } else { limited_to };
                    return ControlFlow::Continue(Next::Enter);
                }
                State::Leaf | State::Kept | State::Foreign => return ControlFlow::Break(()),
            };
            let mut together = all.map_or(one, |all| self.join(all, one));
            let next = match &mut together {
                Uniform::Mixed => return ControlFlow::Break(()),
                Uniform::Nothing => visit.end,
                Uniform::Content(content) => self.join_run(visit, content),
            };
            all = Some(together);
            ControlFlow::Continue(Next::Past(next))
        });
        if is_mixed.is_break() { Uniform::Mixed } else { all.unwrap_or(Uniform::Nothing) }
    }

    /// The same of a table that leads to no other; of one that does, that it is mixed.
    fn uniform_by_itself(&self, table: Table) -> Uniform {
        let (slot, end) = (table.slot::<G>(table.start), table.end(self.geometry));
        let first = Visit::new::<G>(slot, table.level, self.platform.load(slot), table.start, end);
        let (all, uniform_to) = match self.state(&first) {
            State::Hole => {
                let (holes, _) = count_alike(self.platform, slot, G::ENTRIES, Descriptor::INVALID, 0, 0);
                (Uniform::Nothing, if holes == G::ENTRIES { end } else { first.start })
            }
            State::Leaf | State::Kept => {
                let mut content = self.content(&first);
                let to = self.join_run(&first, &mut content);
                (Uniform::Content(content), to)
            }
            State::Table | State::Foreign => (Uniform::Mixed, end),
        };
        if uniform_to == end { all } else { Uniform::Mixed }
    }

    /// What two neighbours hold together. Of bits that hardware writes the larger truth is kept: accessed, dirty.
    fn join(&self, all: Uniform, one: Uniform) -> Uniform {
        match (all, one) {
            (Uniform::Nothing, Uniform::Nothing) => Uniform::Nothing,
            (Uniform::Content(all), Uniform::Content(one)) if self.are_alike(&all, &one) => {
                let marks = marks::of::<R::Attributes>(one.attributes);
                Uniform::Content(Content { attributes: marks::with(self.regime, all.attributes, marks), ..all })
            }
            _ => Uniform::Mixed,
        }
    }

    /// Up to where the slots of the same table hold more of what `visit` holds, but for marks, which `content` gets.
    #[inline(always)]
    fn join_run(&self, visit: &Visit, content: &mut Content) -> u64 {
        let bytes = visit.end - visit.start;
        let end = self.geometry.table_end(visit.level, visit.start);
        let ignored = marks::writable(self.regime, content.attributes) | Descriptor::CONTIGUOUS;
        let count = |bytes: u64| {
            let slots = ((end - visit.start) / bytes) as usize;
            count_alike(self.platform, visit.slot, slots, visit.descriptor, bytes, ignored)
        };
        // Pages by themselves, because they are the most frequent: their number is a constant.
        let (alike, differences) = if visit.level == Level::L3 { count(G::SIZE_BYTES) } else { count(bytes) };
        // A mark in which some differ from the first is one that any of them has.
        content.attributes = marks::with(self.regime, content.attributes, differences);
        // Hardware may have marked the first since it was read: it counts all the same.
        visit.end.max(visit.start + alike as u64 * bytes)
    }
}

/// Whether the table that `visit` leads to has limits of its own, which others made: what it holds means less there than as a
/// leaf in its place.
const fn is_limited(visit: &Visit) -> bool {
    visit.descriptor.bits() & TableAttributes::LIMITS.bits() != 0
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// A table whose leaves are alike becomes a leaf.
    pub(super) fn fold(&mut self, visit: &Visit, leaf: Descriptor) {
        let Some(table) = visit.table(self.geometry) else { return };
        match self.method() {
            _ if !self.is_live => {
                self.make(visit.slot, leaf);
                self.gather.retire(self.platform, table);
            }
            Method::Break => {
                self.exchange_broken(visit, Depth::AllLevels, |editor, _| {
                    // Walks through the broken table have ended: what hardware wrote below is final.
                    let marked = editor.with_marks_below(table, leaf);
                    editor.write(visit.slot, marked);
                });
                self.gather.retire(self.platform, table);
            }
            Method::NotCached => {
                let marked = self.written_all_over(leaf);
                self.make(visit.slot, Descriptor::new(marked.bits() | Descriptor::NT));
                self.forget_now(visit, Depth::AllLevels);
                self.make(visit.slot, marked);
                self.forget(visit.level, visit.start, visit.end);
                self.gather.retire(self.platform, table);
            }
            Method::InPlace { .. } => {
                let marked = self.written_all_over(leaf);
                self.make(visit.slot, marked);
                self.gather.unlink(self.platform, table, visit.end - visit.start);
            }
        }
    }

    /// A leaf that stands for others which hardware may still be writing: it counts as accessed, and as dirty.
    fn written_all_over(&self, leaf: Descriptor) -> Descriptor {
        Descriptor::new(marks::with(self.regime, leaf.bits(), marks::all::<R::Attributes>()))
    }

    /// A table that holds nothing goes.
    pub(crate) fn unlink_if_empty(&mut self, visit: &Visit) {
        let table = visit.table(self.geometry);
        let below = table.map(|table| self.terms.table.uniform(table));
        if let Some(Uniform::Nothing) = below {
            self.unlink(visit, Descriptor::INVALID);
        }
    }

    /// A leaf that takes the place of all leaves below `table`, which no walker writes any more: it has the marks that any of
    /// them has.
    fn with_marks_below(&self, table: Table, leaf: Descriptor) -> Descriptor {
        let mut marks = 0;
        let _ = self.terms.table.walk_all::<()>(table, &mut |visit| {
            if visit.table(self.geometry).is_none() {
                marks |= marks::of::<R::Attributes>(visit.descriptor.bits());
            }
            ControlFlow::Continue(Next::Enter)
        });
        Descriptor::new(marks::with(self.regime, leaf.bits(), marks))
    }
}
