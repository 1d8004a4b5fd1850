//! Changes that have been checked, and are applied.

use core::convert::Infallible;
use core::ops::ControlFlow;

use vmsa::Granule;

use crate::change::{Change, Refusal};
use crate::changes::{Editor, Goal, Terms, goal};
use crate::gather::Gather;
use crate::licence::Licence;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Table, Visit, walk};

/// Where applying begins.
#[derive(Debug)]
pub(crate) enum Start {
    /// At the top, for each change.
    Top,
    /// At this descriptor, for the one change that there is.
    Visit(Goal, Visit),
}

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
        let mut editor = Editor::new(self.table, self.licence, reserve, gather);
        match &self.start {
            Start::Visit(goal, visit) => apply_at(&mut editor, goal, *visit, self.table),
            Start::Top => apply_all(&mut editor, self.changes, self.table),
        }
        (self.changes, self.start, self.tables_needed) = (&[], Start::Top, 0);
        Ok(())
    }
}

/// Changes that were checked, one after the other.
#[inline(never)]
fn apply_all<G: Granule, R: Regime, P: Platform>(
    editor: &mut Editor<'_, G, R, P>,
    changes: &[Change<R>],
    table: &PageTable<'_, G, R, P>,
) {
    for goal in changes.iter().filter_map(|change| goal(table.geometry, change).ok()) {
        for goal in [Some(goal), goal.then()].into_iter().flatten() {
            apply_from(editor, &goal.checked(), table.top, goal.from);
        }
    }
}

/// Carries out what is decided for one descriptor, as it is now, and what is to be met again for it.
#[inline(never)]
fn apply_at<G: Granule, R: Regime, P: Platform>(
    editor: &mut Editor<'_, G, R, P>,
    goal: &Goal,
    mut visit: Visit,
    table: &PageTable<'_, G, R, P>,
) {
    visit.descriptor = editor.platform.load(visit.slot);
    match act(editor, goal, &visit) {
        Next::Past(at) if at >= goal.to => {}
        Next::Past(at) => apply_from(editor, goal, table.top, at),
        Next::Enter => apply_from(editor, goal, table.top, goal.from),
    }
}

/// Walks a goal from offset `from`, and carries out what is decided.
#[inline(never)]
fn apply_from<G: Granule, R: Regime, P: Platform>(
    editor: &mut Editor<'_, G, R, P>,
    goal: &Goal,
    top: Table,
    from: u64,
) {
    let Editor { platform, geometry, .. } = *editor;
    let _ = walk::<G, P, Infallible>(platform, geometry, top, from, goal.to, &mut |visit| {
        ControlFlow::Continue(act(editor, goal, visit))
    });
}

/// Decides what a goal means for what `visit` has met, and carries that out.
#[inline(always)]
fn act<G: Granule, R: Regime, P: Platform>(editor: &mut Editor<'_, G, R, P>, goal: &Goal, visit: &Visit) -> Next {
    let Editor { platform, geometry, regime, .. } = *editor;
    let visit = &goal.meet(geometry, visit);
    let decision = goal.decide::<G, R, P>(platform, geometry, regime, visit);
    editor.carry_out(&decision, visit)
}
