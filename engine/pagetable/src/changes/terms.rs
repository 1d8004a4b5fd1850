//! What planning finds out: whether a change is refused, and how many tables it takes. It walks as applying will, and
//! stores nothing.
//!
//! ```text
//! permit    may this be done to a live leaf?     no licence: what keeps its size may be · break-before-make: anything may be
//!                                                in place, nT: what changes size and nothing that needs a break
//! cost      how many tables may it take?         those of the pieces that it makes, and of those that it makes if hardware
//!                                                marks a leaf first
//! ```
//! Applying asks for the permission once more: hardware may have marked a leaf in between, which then is left as it is.

use core::ops::{ControlFlow, Range};

use vmsa::{Descriptor, Geometry, Granule, Level};

use super::decision::{Part, Regroup};
use super::{Decision, Edit, Goal};
use crate::change::{Change, Refusal};
use crate::licence::{Licence, Method};
use crate::pieces::Pieces;
use crate::platform::{Platform, Slot};
use crate::regime::{HardwareUpdates, Regime, marks};
use crate::table::PageTable;
use crate::walk::{Next, Visit};

/// Where applying begins.
#[derive(Debug)]
pub(crate) enum Start {
    /// At the top, for each change.
    Top,
    /// At this descriptor, for the one change that there is.
    At(Goal, Slot, Level),
}

/// What changes are planned on.
pub(crate) struct Terms<'t, G: Granule, R: Regime, P: Platform> {
    pub(crate) table: &'t PageTable<'t, G, R, P>,
    pub(crate) licence: Option<&'t Licence<'t>>,
}

impl<G: Granule, R: Regime, P: Platform> Terms<'_, G, R, P> {
    /// Where applying `changes` begins and how many tables they take, or why they are refused.
    #[inline(always)]
    pub(crate) fn check_all(&self, changes: &[Change<R>]) -> Result<(Start, usize), Refusal> {
        match changes {
            [change] => self.check_one(self.table.goal(change)?),
            _ => self.check_list(changes),
        }
    }

    #[inline(never)]
    fn check_list(&self, changes: &[Change<R>]) -> Result<(Start, usize), Refusal> {
        let mut tables = 0;
        // What the changes so far lie between.
        let (mut lowest, mut highest) = (u64::MAX, 0);
        for (number, change) in changes.iter().enumerate() {
            let goal = self.table.goal(change)?;
            if goal.from < goal.to && goal.from < highest && lowest < goal.to {
                self.check_overlap(&changes[..number], &goal)?;
            }
            (lowest, highest) = (lowest.min(goal.from), highest.max(goal.to));
            tables += self.check_one(goal)?.1;
        }
        Ok((Start::Top, tables))
    }

    /// The same for one change alone.
    fn check_one(&self, goal: Goal) -> Result<(Start, usize), Refusal> {
        if let Some(outside) = self.table.find_outside_part(goal.from, goal.to) {
            return Err(Refusal::OutsidePart(outside));
        }
        if let Some(then) = goal.then() {
            // What becomes larger takes no tables, and nothing but a licence that lacks stands in its way.
            if self.is_unlicensed() {
                self.check(&goal)?;
                self.check(&then)?;
            } else if let Some(start) = self.start_of_groups(&then) {
                return Ok((start, 0));
            }
            return Ok((Start::Top, 0));
        }
        // Mostly a change is about one descriptor, or a part of it: that where the way for its first byte ends. The plan keeps
        // the slot, and applying begins there. Not for a table that is entered, nor for a group that is met again: a slot is
        // then not all that the change comes to.
        let end = self.table.find_end(goal.from, goal.to);
        let visit = self.table.meet(&goal, &end);
        if (goal.from + 1..=visit.end).contains(&goal.to) {
            let decision = self.table.decide(&goal, &visit);
            let tables = self.cost(&goal, &visit, &decision)?;
            if !matches!(decision, Decision::Enter | Decision::Regroup(Regroup::Dissolve)) {
                return Ok((Start::At(goal.checked(), end.slot, end.level), tables));
            }
        }
        Ok((Start::Top, self.check_more(&goal, visit.start..visit.end)?))
    }

    /// Where groups are made of a part of what one table of pages translates: no table is asked for whole, so that none folds, and there is no
    /// other walk.
    fn start_of_groups(&self, then: &Goal) -> Option<Start> {
        let shift = Geometry::<G>::shift(Level::L2);
        let is_part =
            then.from < then.to && then.to - then.from < 1 << shift && then.from >> shift == (then.to - 1) >> shift;
        is_part.then(|| {
            let end = self.table.find_end(then.from, then.to);
            Start::At(*then, end.slot, end.level)
        })
    }

    /// The tables of a goal that is about more than what it has `first` met. Out of the way of
    /// those that are about one descriptor.
    #[cold]
    fn check_more(&self, goal: &Goal, first: Range<u64>) -> Result<usize, Refusal> {
        if goal.clears() && first.end < goal.to { self.check_ends(goal, first) } else { self.check(goal) }
    }

    /// The same for a goal that removes what is there: nothing stands in the way of that, but where the range ends amid something.
    ///
    /// ```text
    ///   │ first ##│####│#########│####│## last  │      # is asked for: what lies between the first and the last is so whole
    /// ```
    fn check_ends(&self, goal: &Goal, first: Range<u64>) -> Result<usize, Refusal> {
        let last = self.table.meet(goal, &self.table.find_end(goal.to - 1, goal.to));
        let mut tables = 0;
        if first.start < goal.from {
            tables += self.check(&Goal { to: first.end, ..*goal })?;
        }
        if last.end > goal.to {
            tables += self.check(&Goal { from: last.start.max(first.end), ..*goal })?;
        }
        Ok(tables)
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
    ///
    /// Planning stores nothing, so that a group that will have dissolved still reads as one. The walk goes back to where the part
    /// that is asked for begins, and meets its members there as the single leaves that they will be:
    ///
    /// ```text
    ///   │ g │ g │ g │ g │     met as one: dissolves            │ l │ l │ l │ l │     met again, without the bit
    ///          ▲ from                                                 ▲ from          ▲ single_to
    /// ```
    #[inline(never)]
    fn check(&self, goal: &Goal) -> Result<usize, Refusal> {
        let table = self.table;
        let (mut tables, mut single_to) = (0, 0);
        let end = table.walk(table.top, goal.from, goal.to, &mut |visit| {
            let met = if visit.start < single_to { visit.ungrouped() } else { table.meet(goal, visit) };
            let decision = table.decide(goal, &met);
            match self.cost(goal, &met, &decision) {
                Ok(cost) => tables += cost,
                Err(refusal) => return ControlFlow::Break(refusal),
            }
            ControlFlow::Continue(match decision {
                Decision::Enter => Next::Enter,
                Decision::Set(edit, end) => Next::Past(table.end_of_run(visit, edit, end)),
                Decision::Fill(_, end) => Next::Past(end),
                Decision::Regroup(Regroup::Dissolve) => {
                    single_to = met.end;
                    Next::Past(met.from)
                }
                _ => Next::Past(met.end),
            })
        });
        match end {
            ControlFlow::Break(refusal) => Err(refusal),
            ControlFlow::Continue(()) => Ok(tables),
        }
    }

    /// The tables that carrying out a decision takes, or why it may not be.
    #[inline(always)]
    fn cost(&self, goal: &Goal, visit: &Visit, decision: &Decision) -> Result<usize, Refusal> {
        self.permit(decision, visit)?;
        Ok(match decision {
            Decision::Link(pieces) => self.tables_below(visit, pieces),
            Decision::Rebuild(pieces) => self.tables_to_rebuild(visit, pieces),
            Decision::Resize(part) => self.tables_of(visit, part),
            Decision::Regroup(regroup) => self.tables_of_group(visit, *regroup)?,
            Decision::Pass => self.tables_if_marked(goal, visit),
            _ => 0,
        })
    }

    /// Whether the licence is for this; if not, why it may not be.
    #[inline(always)]
    pub(super) fn permit(&self, decision: &Decision, visit: &Visit) -> Result<(), Refusal> {
        match decision {
            Decision::Refuse(refusal) => Err(*refusal),
            _ if !self.table.is_live => Ok(()),
            Decision::Remake(_) | Decision::Rebuild(_) => self.needs_break(visit),
            Decision::Fold(_) => self.needs_licence(visit),
            Decision::Resize(part) => self.needs_licence_for(visit, part.edit),
            Decision::Regroup(regroup) if visit.descriptor.is_valid() => self.needs_licence_for(visit, regroup.edit()),
            _ => Ok(()),
        }
    }

    /// The tables that it takes to hold `pieces` below a slot.
    #[inline(always)]
    pub(super) fn tables_below(&self, visit: &Visit, pieces: &Pieces) -> usize {
        match visit.level.next() {
            None => 0,
            // A table of pages is one, whatever they hold.
            Some(Level::L3) => 1,
            Some(level) => pieces.tables(self.table.geometry, level, visit.start),
        }
    }

    /// The tables that a leaf takes of which a part is as asked already, if hardware marks the leaf before the change is made:
    /// the mark is then what the change has to undo.
    #[inline(never)]
    fn tables_if_marked(&self, goal: &Goal, visit: &Visit) -> usize {
        let (regime, held) = (self.table.regime, visit.descriptor);
        let is_leaf = held != Descriptor::INVALID && !visit.is_whole();
        let Some(edit) = goal.edit().filter(|_| is_leaf) else { return 0 };
        if regime.hardware_updates() == HardwareUpdates::None || held.is_valid() && self.is_unlicensed() {
            return 0;
        }
        if visit.is_group() {
            return self.tables_of_cut_members(visit, Edit::KEEP);
        }
        let marked = Descriptor::new(marks::with(regime, held.bits(), marks::all::<R::Attributes>()));
        if edit.apply(marked) == marked { 0 } else { self.tables_of(&visit.with(marked), &Part::of(visit, edit)) }
    }

    /// A leaf changes size, and `edit` is made: if that is one that no CPU tolerates, size and all needs break-before-make.
    #[inline(always)]
    fn needs_licence_for(&self, visit: &Visit, edit: Edit) -> Result<(), Refusal> {
        let is_tolerated = edit.is_in_place::<R::Attributes>(visit.descriptor, edit.apply(visit.descriptor));
        if is_tolerated { self.needs_licence(visit) } else { self.needs_break(visit) }
    }

    #[inline(always)]
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
            Some(Method::InPlace { .. } | Method::NotCached) => {
                Err(Refusal::NeedsBreak(self.table.geometry.input(visit.from)))
            }
            _ => Ok(()),
        }
    }
}
