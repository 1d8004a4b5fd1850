//! Changes that have been checked, and are applied.
//!
//! Planning has stored nothing, and hardware may have marked leaves since: applying reads each descriptor anew and decides anew, by
//! the same function. What it meets differs from what was planned by marks alone, for which the plan has counted tables too. So
//! only a short reserve can refuse the apply, and that is asked before the first store.
//!
//! ```text
//! one change that one descriptor decides    plan keeps its slot ──▶ apply begins there        no second walk from the root
//! anything else                             apply walks from the top, as planning did
//! ```

use core::convert::Infallible;
use core::ops::ControlFlow;

use vmsa::{Granule, Level};

use crate::change::{Change, Refusal};
use crate::changes::{Editor, Goal, Start, Terms};
use crate::gather::Gather;
use crate::licence::Licence;
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Table, Visit};

/// Changes that will be made: nothing stands in their way but the tables they need.
#[derive(Debug)]
#[must_use = "a plan does nothing until it is applied"]
pub struct Plan<'t, 'p, 'c, G: Granule, R: Regime, P: Platform> {
    table: &'t mut PageTable<'p, G, R, P>,
    changes: &'c [Change<R>],
    licence: Option<&'t Licence<'t>>,
    start: Start,
    tables_needed: usize,
}

impl<'p, G: Granule, R: Regime, P: Platform> PageTable<'p, G, R, P> {
    /// Checks all of `changes` against what the tables hold. Nothing has been stored, whatever the answer.
    ///
    /// The changes of one list may not overlap. Those that resize a live leaf need a licence.
    ///
    /// Planning and applying read and write a few times as many descriptors as map the ranges by pages alone, at every level,
    /// and as a few tables hold: no more, whatever the tables hold, loops included. Of tables that others wrote nothing is
    /// believed; but those that come free are what their descriptors said.
    #[inline(always)]
    pub fn plan<'t, 'c>(
        &'t mut self,
        changes: &'c [Change<R>],
        licence: Option<&'t Licence<'t>>,
    ) -> Result<Plan<'t, 'p, 'c, G, R, P>, Refusal> {
        Plan::new(self, changes, licence)
    }
}

impl<'t, 'p, 'c, G: Granule, R: Regime, P: Platform> Plan<'t, 'p, 'c, G, R, P> {
    #[inline(always)]
    pub(crate) fn new(
        table: &'t mut PageTable<'p, G, R, P>,
        changes: &'c [Change<R>],
        licence: Option<&'t Licence<'t>>,
    ) -> Result<Self, Refusal> {
        let (start, tables_needed) = Terms { table, licence }.check_all(changes)?;
        Ok(Self { table, changes, licence, start, tables_needed })
    }

    /// How many tables the changes take at most. What is not used stays in the reserve.
    pub const fn tables_needed(&self) -> usize {
        self.tables_needed
    }

    /// A gather for it: a new one. Changes of several plans go into one gather if it is kept.
    pub fn gather(&self) -> Gather<G, R> {
        self.table.gather()
    }

    /// Makes the changes, with tables from `reserve`. They are complete when `gather` is finished; the plan has nothing left to
    /// do then.
    ///
    /// Refused by [`Refusal::ReserveShortBy`] if `reserve` holds too few tables, and by [`Refusal::OutputTooWide`] if the plan
    /// would take one that no descriptor can lead to. Nothing has changed then, and the plan can be applied yet. Nothing else
    /// can go wrong.
    #[inline(always)]
    pub fn apply(&mut self, reserve: &mut Reserve, gather: &mut Gather<G, R>) -> Result<(), Refusal> {
        if self.tables_needed > 0 {
            reserve.check(self.table.platform, self.tables_needed, self.table.geometry.layout())?;
        }
        gather.complete_overlaps(self.table.platform, self.changes);
        let terms = Terms { table: self.table, licence: self.licence };
        let mut editor = Editor::new(terms, reserve, gather);
        match &self.start {
            Start::At(goal, slot, level) => apply_at(&mut editor, goal, *slot, *level),
            Start::Top => apply_all(&mut editor, self.changes),
        }
        (self.changes, self.start, self.tables_needed) = (&[], Start::Top, 0);
        Ok(())
    }
}

/// Changes that were checked, one after the other.
#[inline(never)]
fn apply_all<G: Granule, R: Regime, P: Platform>(editor: &mut Editor<'_, G, R, P>, changes: &[Change<R>]) {
    for goal in changes.iter().filter_map(|change| editor.terms.table.goal(change).ok()) {
        for goal in [Some(goal), goal.then()].into_iter().flatten() {
            apply_from(editor, &goal.checked(), editor.terms.table.top, goal.from);
        }
    }
}

/// Carries out what is decided for one descriptor, as it is now, and what is to be met again for it.
///
/// ```text
///   done with all of the range      nothing more
///   done with a part of it          the walk goes on behind that, in the same table: what a plan keeps a slot of ends with its range, or is in one table
///   the descriptor is a table       others have stored since it was planned: the walk enters it
///   it has just become a table      so does the slot of that table, which needs no look-up: mostly it is all that is asked for
/// ```
#[inline(never)]
fn apply_at<G: Granule, R: Regime, P: Platform>(
    editor: &mut Editor<'_, G, R, P>,
    goal: &Goal,
    slot: Slot,
    level: Level,
) {
    let (mut slot, mut level) = (slot, level);
    loop {
        let visit = Visit::new::<G>(slot, level, editor.platform.load(slot), goal.from, goal.to);
        // The table, as far as from here on.
        let here = Table { address: slot.address(), level, start: visit.start };
        match act(editor, goal, &visit) {
            Next::Past(at) if at >= goal.to => return,
            Next::Past(at) => return apply_from(editor, goal, here, at),
            Next::Enter => return apply_from(editor, goal, here, goal.from),
            Next::Into(table) => (slot, level) = (table.slot::<G>(goal.from), table.level),
        }
    }
}

/// Walks a goal through `top` from offset `from`, and carries out what is decided.
#[inline(never)]
pub(crate) fn apply_from<G: Granule, R: Regime, P: Platform>(
    editor: &mut Editor<'_, G, R, P>,
    goal: &Goal,
    top: Table,
    from: u64,
) {
    let _ = editor
        .terms
        .table
        .walk::<Infallible>(top, from, goal.to, &mut |visit| ControlFlow::Continue(act(editor, goal, visit)));
}

/// Decides what a goal means for what `visit` has met, and carries that out.
#[inline(always)]
fn act<G: Granule, R: Regime, P: Platform>(editor: &mut Editor<'_, G, R, P>, goal: &Goal, visit: &Visit) -> Next {
    let visit = &editor.terms.table.meet(goal, visit);
    let decision = editor.terms.table.decide(goal, visit);
    editor.carry_out(&decision, visit)
}
