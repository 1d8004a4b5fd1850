//! Changes that have been checked, and changes that have their tables too.

use core::convert::Infallible;
use core::ops::ControlFlow;

use vmsa::{Geometry, Granule};

use crate::apply::Editor;
use crate::change::{Change, Refusal};
use crate::decide::{Decision, Goal};
use crate::gather::Gather;
use crate::licence::Licence;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Table, Visit, deepest_table, walk};

/// Plans keep the way to as many changes; those beyond are walked to again.
const KEPT: usize = 4;

/// Changes that will be made: nothing stands in their way but the tables they need.
#[derive(Debug)]
#[must_use = "a plan does nothing until it is applied"]
pub struct Plan<'t, 'p, 'c, G: Granule, R: Regime, P: Platform> {
    table: &'t mut PageTable<'p, G, R, P>,
    changes: &'c [Change<R>],
    kept: [Option<(Goal, Table)>; KEPT],
    tables_needed: usize,
    /// Where the last change ends, as long as each began at or after the end of the one before.
    ascends_to: Option<u64>,
}

/// A plan with its tables in hand.
#[derive(Debug)]
#[must_use = "a plan does nothing until it is applied"]
pub struct Ready<'t, 'p, 'c, 'r, G: Granule, R: Regime, P: Platform> {
    plan: Plan<'t, 'p, 'c, G, R, P>,
    reserve: &'r mut Reserve,
}

impl<'t, 'p, 'c, G: Granule, R: Regime, P: Platform> Plan<'t, 'p, 'c, G, R, P> {
    pub(crate) fn new(
        table: &'t mut PageTable<'p, G, R, P>,
        changes: &'c [Change<R>],
        licence: Option<&Licence<'_>>,
    ) -> Result<Self, Refusal> {
        let may_resize = !table.is_live || licence.is_some();
        let mut plan = Self { table, changes, kept: [None; KEPT], tables_needed: 0, ascends_to: Some(0) };
        for (number, change) in changes.iter().enumerate() {
            let goal = Goal::new(plan.table.geometry, change)?;
            plan.check_overlap(number, &goal)?;
            let start = plan.find_start(&goal);
            plan.tables_needed += plan.check(&goal, start, may_resize)?;
            if let Some(place) = plan.kept.get_mut(number) {
                *place = Some((goal, start));
            }
        }
        Ok(plan)
    }

    /// How many tables the changes take at most. What is not used stays in the reserve.
    pub const fn tables_needed(&self) -> usize {
        self.tables_needed
    }

    /// A gather for it.
    pub fn gather(&self) -> Gather<G, R> {
        self.table.gather()
    }

    /// Gives the plan its tables; refused if `reserve` holds too few.
    pub fn with<'r>(self, reserve: &'r mut Reserve) -> Result<Ready<'t, 'p, 'c, 'r, G, R, P>, Refusal> {
        match self.tables_needed.checked_sub(reserve.count()) {
            None | Some(0) => Ok(Ready { plan: self, reserve }),
            Some(lacking) => Err(Refusal::ReserveShortBy(lacking)),
        }
    }

    /// Lists that ascend cost one comparison a change, others one with each change before.
    fn check_overlap(&mut self, number: usize, goal: &Goal) -> Result<(), Refusal> {
        self.ascends_to = self.ascends_to.filter(|&end| end <= goal.from).map(|_| goal.to);
        if self.ascends_to.is_some() {
            return Ok(());
        }
        let geometry = self.table.geometry;
        let before = self.changes[..number].iter().filter_map(|change| Goal::new(geometry, change).ok());
        let meets = |other: &Goal| other.from < goal.to && goal.from < other.to;
        match before.into_iter().find(meets) {
            Some(other) => Err(Refusal::Overlap(geometry.input(other.from.max(goal.from)))),
            None => Ok(()),
        }
    }

    fn find_start(&self, goal: &Goal) -> Table {
        let PageTable { platform, geometry, root, .. } = *self.table;
        let root = Table { address: root, level: geometry.start(), start: 0 };
        deepest_table(platform, geometry, root, goal.from, goal.to)
    }

    /// Counts the tables that a change takes, or says why it is refused.
    fn check(&self, goal: &Goal, start: Table, may_resize: bool) -> Result<usize, Refusal> {
        let PageTable { platform, geometry, .. } = *self.table;
        let mut tables = 0;
        let end = walk(platform, geometry, start, goal.from, goal.to, &mut |visit| {
            let decision = goal.decide::<G, R, P>(platform, geometry, visit);
            match foresee(geometry, visit, &decision) {
                Outcome { needs_licence: true, .. } if !may_resize => {
                    ControlFlow::Break(Refusal::NeedsLicence(geometry.input(visit.from)))
                }
                outcome => {
                    tables += outcome.tables;
                    match decision {
                        Decision::Refuse(refusal) => ControlFlow::Break(refusal),
                        _ => ControlFlow::Continue(outcome.next),
                    }
                }
            }
        });
        match end {
            ControlFlow::Break(refusal) => Err(refusal),
            ControlFlow::Continue(()) => Ok(tables),
        }
    }
}

/// What carrying out a decision will take.
struct Outcome {
    tables: usize,
    needs_licence: bool,
    next: Next,
}

fn foresee<G: Granule>(geometry: Geometry<G>, visit: &Visit, decision: &Decision) -> Outcome {
    let layout = geometry.layout();
    let below = visit.level.next().unwrap_or(visit.level);
    let plain = Outcome { tables: 0, needs_licence: false, next: Next::Past(visit.end) };
    match decision {
        Decision::Enter => Outcome { next: Next::Enter, ..plain },
        Decision::MakeGroup(_, bytes) => Outcome { next: Next::Past(visit.start + bytes), ..plain },
        Decision::Link(pieces) => Outcome { tables: pieces.tables::<G>(layout, below, visit.start), ..plain },
        Decision::Remake(_) => Outcome { needs_licence: true, ..plain },
        Decision::Resize(pieces) => {
            Outcome { tables: pieces.tables::<G>(layout, below, visit.start), needs_licence: true, ..plain }
        }
        Decision::Regroup(group) => {
            let shift = Geometry::<G>::shift(visit.level);
            let tables = group.cut_members(shift).map(|number| {
                let start = group.start + ((number as u64) << shift);
                let (from, to) = (group.from.max(start), group.to.min(start + (1 << shift)));
                let pieces = group.edit.pieces(geometry, visit.descriptor, visit.level, start, from, to);
                pieces.tables::<G>(layout, below, start)
            });
            Outcome { tables: tables.sum(), needs_licence: true, next: Next::Past(group.end.min(group.to)) }
        }
        _ => plain,
    }
}

impl<G: Granule, R: Regime, P: Platform> Ready<'_, '_, '_, '_, G, R, P> {
    /// Makes the changes. This cannot fail. They are complete when `gather` is finished.
    pub fn apply(self, gather: &mut Gather<G, R>) {
        let Self { plan, reserve } = self;
        let PageTable { platform, geometry, regime, is_live, .. } = *plan.table;
        for (number, change) in plan.changes.iter().enumerate() {
            let (goal, start) = match plan.kept.get(number).copied().flatten() {
                Some(kept) => kept,
                None => match Goal::new(geometry, change) {
                    Ok(goal) => (goal, plan.find_start(&goal)),
                    Err(_) => continue,
                },
            };
            let mut editor =
                Editor { platform, geometry, regime, is_live, reserve: &mut *reserve, gather: &mut *gather };
            let _ = walk::<G, P, Infallible>(platform, geometry, start, goal.from, goal.to, &mut |visit| {
                let decision = goal.decide::<G, R, P>(platform, geometry, visit);
                ControlFlow::Continue(editor.carry_out(decision, visit))
            });
        }
    }
}
