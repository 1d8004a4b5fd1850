//! What planning checks: each change is walked as it will be applied, and nothing is stored.

use core::ops::ControlFlow;

use vmsa::{Descriptor, Geometry, Granule, Level};

use crate::change::{Change, Refusal};
use crate::decide::{Decision, Edit, Goal, goal, part};
use crate::licence::{Licence, Method};
use crate::pieces::{Kind, Pieces};
use crate::plan::Start;
use crate::platform::Platform;
use crate::regime::{HardwareUpdates, Regime, marks};
use crate::table::PageTable;
use crate::walk::{Next, Table, Visit, walk};

/// What changes are checked against.
pub(crate) struct Check<'t, 'p, G: Granule, R: Regime, P: Platform> {
    pub(crate) table: &'t PageTable<'p, G, R, P>,
    pub(crate) licence: Option<&'t Licence<'t>>,
}

impl<G: Granule, R: Regime, P: Platform> Check<'_, '_, G, R, P> {
    /// Where applying `changes` begins and how many tables they take, or why they are refused.
    pub(crate) fn check_all(&self, changes: &[Change<R>]) -> Result<(Start, usize), Refusal> {
        if let [change] = changes {
            return self.check_one(goal(self.table.geometry, change)?);
        }
        let mut tables = 0;
        // What the changes so far lie between.
        let (mut lowest, mut highest) = (u64::MAX, 0);
        for (number, change) in changes.iter().enumerate() {
            let goal = goal(self.table.geometry, change)?;
            if goal.from < goal.to && goal.from < highest && lowest < goal.to {
                self.check_overlap(&changes[..number], &goal)?;
            }
            (lowest, highest) = (lowest.min(goal.from), highest.max(goal.to));
            tables += self.check_one(goal)?.1;
        }
        Ok((Start::Root, tables))
    }

    /// The same for one change alone.
    fn check_one(&self, goal: Goal) -> Result<(Start, usize), Refusal> {
        let PageTable { platform, geometry, regime, .. } = *self.table;
        let then = goal.then();
        // What becomes larger takes no tables, and nothing but a licence that lacks stands in its way.
        if then.is_some() && !self.is_unlicensed() {
            return Ok((Start::Root, 0));
        }
        // Mostly a change is about one descriptor, or a part of it: that where a walk for its first byte ends.
        let visit = self.table.find_end(goal.from, goal.to);
        if then.is_none()
            && (goal.from + 1..=visit.end).contains(&goal.to)
            && let decision = goal.decide::<G, R, P>(platform, geometry, regime, &visit)
            && let (Next::Past(end), tables) = self.foresee(&goal, &visit, &decision)?
            && end >= goal.to
        {
            return Ok((Start::Visit(goal.checked(), visit), tables));
        }
        let table = self.table.find_table(goal.from, goal.to);
        let tables = self.check(&goal, table)?;
        match then {
            Some(then) => Ok((Start::Root, tables + self.check(&then, table)?)),
            None => Ok((Start::Table(goal.checked(), table), tables)),
        }
    }

    /// Lists that ascend or descend cost a comparison a change, others one with each change before, which are sound.
    fn check_overlap(&self, before: &[Change<R>], goal: &Goal) -> Result<(), Refusal> {
        let geometry = self.table.geometry;
        let mut before = before.iter().map(|change| change.offsets(geometry));
        match before.find(|(from, to)| from < to && *from < goal.to && goal.from < *to) {
            Some((from, _)) => Err(Refusal::Overlap(geometry.input(from.max(goal.from)))),
            None => Ok(()),
        }
    }

    /// Counts the tables that a goal takes, or says why it is refused.
    fn check(&self, goal: &Goal, start: Table) -> Result<usize, Refusal> {
        let PageTable { platform, geometry, regime, .. } = *self.table;
        let mut tables = 0;
        let end = walk(platform, geometry, start, goal.from, goal.to, &mut |visit| {
            if let Some(end) = goal.certain_to(geometry, visit) {
                return ControlFlow::Continue(Next::Past(end));
            }
            let foreseen = self.foresee(goal, visit, &goal.decide::<G, R, P>(platform, geometry, regime, visit));
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
    fn foresee(&self, goal: &Goal, visit: &Visit, decision: &Decision) -> Result<(Next, usize), Refusal> {
        let PageTable { platform, geometry, regime, .. } = *self.table;
        let past = Next::Past(visit.end);
        let below = |pieces: &Pieces, start| match visit.level.next() {
            Some(level) => pieces.tables::<G>(geometry.layout(), level, start),
            None => 0,
        };
        // A table of pages is one, whatever they hold.
        let is_above_pages = visit.level == Level::L2;
        match decision {
            Decision::Refuse(refusal) => Err(*refusal),
            Decision::Enter => Ok((Next::Enter, 0)),
            Decision::Link(pieces) => Ok((past, below(pieces, visit.start))),
            Decision::Set(edit, end) => Ok((Next::Past(self.find_end_of_run(visit, *edit, *end)), 0)),
            Decision::Fill(_, end) => Ok((Next::Past(*end), 0)),
            Decision::Remake(_) => self.needs_break(visit).map(|()| (past, 0)),
            Decision::Rebuild(pieces) => {
                self.needs_break(visit)?;
                Ok((past, rebuild_tables::<G>(geometry, visit, pieces, below(pieces, visit.start))))
            }
            Decision::Fold(_) => self.needs_licence(visit).map(|()| (past, 0)),
            Decision::Resize(part) => {
                self.needs_licence_for(visit, part.edit)?;
                if is_above_pages {
                    return Ok((past, 1));
                }
                let pieces = part.pieces(geometry, visit.descriptor, visit.level, visit.start);
                Ok((past, below(&pieces, visit.start)))
            }
            Decision::Regroup(group) => {
                let group = if group.is_met_again { *group } else { group.found(platform, visit) };
                if group.is_lost(geometry, visit) {
                    return Err(Refusal::NotKeepable(geometry.input(group.start)));
                }
                if group.is_valid {
                    self.needs_licence_for(visit, group.edit)?;
                }
                if group.is_met_again {
                    // The member as it will be met.
                    let bits = visit.descriptor.bits() & !Descriptor::CONTIGUOUS;
                    let single = Visit { descriptor: Descriptor::new(bits), ..*visit };
                    let decision = goal.decide::<G, R, P>(platform, geometry, regime, &single);
                    return self.foresee(goal, &single, &decision);
                }
                let shift = Geometry::<G>::shift(visit.level);
                let tables = group.cut_members(shift).into_iter().flatten().map(|number| {
                    let start = group.start + ((number as u64) << shift);
                    let part = group.part(start, start + (1 << shift));
                    below(&part.pieces(geometry, visit.descriptor, visit.level, start), start)
                });
                Ok((Next::Past(group.end.min(group.to)), tables.sum()))
            }
            Decision::Pass => Ok((past, self.tables_if_marked(goal, visit))),
            _ => Ok((past, 0)),
        }
    }

    /// The tables that a leaf takes if hardware marks it before the change is made, so that there is something to change.
    fn tables_if_marked(&self, goal: &Goal, visit: &Visit) -> usize {
        let PageTable { platform, geometry, regime, .. } = *self.table;
        let held = visit.descriptor;
        let is_leaf = held != Descriptor::INVALID && !held.is_table(visit.level);
        if !is_leaf || visit.is_whole() || regime.hardware_updates() == HardwareUpdates::None {
            return 0;
        }
        // Of a group, as the member that it will be.
        let marked = marks::with(regime, held.bits() & !Descriptor::CONTIGUOUS, marks::all::<R::Attributes>());
        let single = Visit { descriptor: Descriptor::new(marked), ..*visit };
        match goal.decide::<G, R, P>(platform, geometry, regime, &single) {
            // It stays, but is cut if a mark on another member has the group dissolved.
            Decision::Pass if held.is_contiguous() => self
                .foresee(goal, &single, &Decision::Resize(part(&single, Edit::KEEP)))
                .map_or(0, |(_, tables)| tables),
            Decision::Pass => 0,
            decision => self.foresee(goal, &single, &decision).map_or(0, |(_, tables)| tables),
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
        if self.is_unlicensed() {
            return Err(Refusal::NeedsLicence(self.table.geometry.input(visit.from)));
        }
        Ok(())
    }

    /// Whether live leaves may not change size.
    const fn is_unlicensed(&self) -> bool {
        self.table.is_live && self.licence.is_none()
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
        let is_tolerated = edit.is_in_place::<R::Attributes>(visit.descriptor, edit.apply(visit.descriptor));
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
