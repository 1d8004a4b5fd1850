//! Changes that have been checked, and changes that have their tables too.

use core::convert::Infallible;
use core::ops::ControlFlow;

use vmsa::{Descriptor, Geometry, Granule};

use crate::apply::Editor;
use crate::change::{Change, Refusal};
use crate::decide::{Decision, Edit, Goal, goals};
use crate::gather::Gather;
use crate::licence::{Licence, Method};
use crate::pieces::{Kind, Pieces};
use crate::platform::Platform;
use crate::regime::{Attributes, Regime};
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Next, Table, Visit, deepest_table, walk};

/// Changes that will be made: nothing stands in their way but the tables they need.
#[derive(Debug)]
#[must_use = "a plan does nothing until it is applied"]
pub struct Plan<'t, 'p, 'c, G: Granule, R: Regime, P: Platform> {
    table: &'t mut PageTable<'p, G, R, P>,
    changes: &'c [Change<R>],
    licence: Option<&'t Licence<'t>>,
    /// The first change and where its walk starts: most lists are one change long. Others are walked to again.
    first: Option<(Goal, Table)>,
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
    #[inline]
    pub(crate) fn new(
        table: &'t mut PageTable<'p, G, R, P>,
        changes: &'c [Change<R>],
        licence: Option<&'t Licence<'t>>,
    ) -> Result<Self, Refusal> {
        let mut plan = Self { table, changes, licence, first: None, tables_needed: 0, ascends_to: Some(0) };
        for (number, change) in changes.iter().enumerate() {
            let (goal, then) = goals(plan.table.geometry, change)?;
            plan.check_overlap(number, &goal)?;
            let start = plan.find_start(&goal);
            plan.tables_needed += plan.check(&goal, start)?;
            if let Some(then) = then {
                plan.check(&then, start)?;
            } else if number == 0 {
                plan.first = Some((goal.checked(), start));
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
    #[inline]
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
        let mut before = self.changes[..number].iter().filter_map(|change| goals(geometry, change).ok());
        match before.find(|(other, _)| other.from < goal.to && goal.from < other.to) {
            Some((other, _)) => Err(Refusal::Overlap(geometry.input(other.from.max(goal.from)))),
            None => Ok(()),
        }
    }

    fn find_start(&self, goal: &Goal) -> Table {
        let PageTable { platform, geometry, root, .. } = *self.table;
        let root = Table { address: root, level: geometry.start(), start: 0 };
        deepest_table(platform, geometry, root, goal.from, goal.to)
    }

    /// Counts the tables that a goal takes, or says why it is refused.
    fn check(&self, goal: &Goal, start: Table) -> Result<usize, Refusal> {
        let PageTable { platform, geometry, regime, .. } = *self.table;
        let mut tables = 0;
        let end = walk(platform, geometry, start, goal.from, goal.to, &mut |visit| {
            if let Some(end) = goal.certain_to(geometry, visit) {
                return ControlFlow::Continue(Next::Past(end));
            }
            let foreseen = self.foresee(goal, visit, goal.decide::<G, R, P>(platform, geometry, regime, visit));
            match foreseen {
                Ok((next, taken)) => {
                    tables += taken;
                    ControlFlow::Continue(next)
                }
                Err(refusal) => ControlFlow::Break(refusal),
            }
        });
        match end {
            ControlFlow::Break(refusal) => Err(refusal),
            ControlFlow::Continue(()) => Ok(tables),
        }
    }

    /// Where the walk goes on, and the tables that carrying out a decision will take.
    fn foresee(&self, goal: &Goal, visit: &Visit, decision: Decision) -> Result<(Next, usize), Refusal> {
        let PageTable { platform, geometry, regime, .. } = *self.table;
        let past = Next::Past(visit.end);
        let below = |pieces: &Pieces, start| match visit.level.next() {
            Some(level) => pieces.tables::<G>(geometry.layout(), level, start),
            None => 0,
        };
        match decision {
            Decision::Refuse(refusal) => Err(refusal),
            Decision::Enter => Ok((Next::Enter, 0)),
            Decision::Link(pieces) => Ok((past, below(&pieces, visit.start))),
            Decision::Set(edit, end) => Ok((Next::Past(self.find_end_of_run(visit, edit, end)), 0)),
            Decision::Fill(_, end) => Ok((Next::Past(end), 0)),
            Decision::Remake(_) => self.needs_break(visit).map(|()| (past, 0)),
            Decision::Rebuild(pieces) => {
                self.needs_break(visit)?;
                Ok((past, rebuild_tables::<G>(geometry, visit, &pieces, below(&pieces, visit.start))))
            }
            Decision::Fold(_) => self.needs_licence(visit).map(|()| (past, 0)),
            Decision::Resize(part) => {
                self.needs_licence_for(visit, part.edit)?;
                let pieces = part.pieces(geometry, visit.descriptor, visit.level, visit.start);
                Ok((past, below(&pieces, visit.start)))
            }
            Decision::Regroup(group) => {
                if group.is_valid {
                    self.needs_licence_for(visit, group.edit)?;
                }
                if group.is_met_again {
                    // The member as it will be met.
                    let bits = visit.descriptor.bits() & !Descriptor::CONTIGUOUS;
                    let single = Visit { descriptor: Descriptor::new(bits), ..*visit };
                    let decision = goal.decide::<G, R, P>(platform, geometry, regime, &single);
                    return self.foresee(goal, &single, decision);
                }
                let shift = Geometry::<G>::shift(visit.level);
                let tables = group.cut_members(shift).map(|number| {
                    let start = group.start + ((number as u64) << shift);
                    let part = group.part(start, start + (1 << shift));
                    below(&part.pieces(geometry, visit.descriptor, visit.level, start), start)
                });
                Ok((Next::Past(group.end.min(group.to)), tables.sum()))
            }
            _ => Ok((past, 0)),
        }
    }

    /// Where leaves that change in place as the one at `visit` does give way to others.
    fn find_end_of_run(&self, visit: &Visit, edit: Edit, end: u64) -> u64 {
        let (mut slot, mut at) = (visit.slot, visit.end);
        while at < end {
            slot = slot.after(1);
            if !edit.is_alike::<R::Attributes>(visit.descriptor, self.table.platform.load(slot)) {
                break;
            }
            at += visit.end - visit.start;
        }
        at
    }

    fn needs_licence(&self, visit: &Visit) -> Result<(), Refusal> {
        if !self.table.is_live || self.licence.is_some() {
            return Ok(());
        }
        Err(Refusal::NeedsLicence(self.table.geometry.input(visit.from)))
    }

    fn needs_break(&self, visit: &Visit) -> Result<(), Refusal> {
        self.needs_licence(visit)?;
        match self.licence.map(Licence::method) {
            Some(Method::InPlace { .. } | Method::NotCached) if self.table.is_live => {
                Err(Refusal::NeedsBreak(self.table.geometry.input(visit.from)))
            }
            _ => Ok(()),
        }
    }

    /// A leaf changes size, and `edit` is made: if that is one that no CPU tolerates, size and all needs break-before-make.
    fn needs_licence_for(&self, visit: &Visit, edit: Edit) -> Result<(), Refusal> {
        let changed = visit.descriptor.bits() ^ edit.apply(visit.descriptor).bits();
        let is_tolerated = match edit {
            Edit::Attributes { .. } => changed & !R::Attributes::IN_PLACE == 0,
            _ => true,
        };
        if is_tolerated { self.needs_licence(visit) } else { self.needs_break(visit) }
    }
}

/// Tables for what takes the place of a whole descriptor: none if a leaf does.
fn rebuild_tables<G: Granule>(geometry: Geometry<G>, visit: &Visit, pieces: &Pieces, below: usize) -> usize {
    match pieces.segment::<G>(geometry.layout(), visit.level, visit.start, visit.end).kind {
        Kind::Leaves(_) => 0,
        _ => below,
    }
}

impl<G: Granule, R: Regime, P: Platform> Ready<'_, '_, '_, '_, G, R, P> {
    /// Makes the changes. This cannot fail. They are complete when `gather` is finished.
    #[inline]
    pub fn apply(self, gather: &mut Gather<G, R>) {
        let Self { plan, reserve } = self;
        for (number, change) in plan.changes.iter().enumerate() {
            if let Some((goal, start)) = plan.first.filter(|_| number == 0) {
                plan.pursue(&goal, start, reserve, gather);
            } else if let Ok((goal, then)) = goals(plan.table.geometry, change) {
                for goal in [Some(goal), then].into_iter().flatten() {
                    plan.pursue(&goal.checked(), plan.find_start(&goal), reserve, gather);
                }
            }
        }
    }
}

impl<G: Granule, R: Regime, P: Platform> Plan<'_, '_, '_, G, R, P> {
    fn pursue(&self, goal: &Goal, start: Table, reserve: &mut Reserve, gather: &mut Gather<G, R>) {
        let PageTable { platform, geometry, regime, is_live, .. } = *self.table;
        let method = self.licence.map_or(Method::Break, Licence::method);
        let mut editor = Editor { platform, geometry, regime, is_live, method, reserve, gather, unhinted_to: 0 };
        let _ = walk::<G, P, Infallible>(platform, geometry, start, goal.from, goal.to, &mut |visit| {
            let decision = goal.decide::<G, R, P>(platform, geometry, regime, visit);
            ControlFlow::Continue(editor.carry_out(decision, visit))
        });
    }
}
