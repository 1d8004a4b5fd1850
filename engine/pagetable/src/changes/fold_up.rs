//! Folding from one address upwards: what holds the address becomes larger, for as long as something folds.
//!
//! ```text
//!   page ─▶ block ─▶ group of blocks ─▶ block of the level above ─▶ group …      each only where all that it is made of is alike
//!     └─ the table is mixed: its pages become groups again, and nothing above folds
//! ```
//! One descent, and of each level one table is read, mostly as far as to the first thing that differs: what is below another slot
//! is not looked at, for who becomes whole last folds for all.

use core::ops::Range;

use vmsa::{Address, Geometry, Granule, LeafSize, Level};

use super::goal::Wanted;
use super::{Decision, Editor, Goal, Terms};
use crate::gather::Gather;
use crate::licence::Licence;
use crate::plan::apply_from;
use crate::platform::{Platform, Slot};
use crate::regime::Regime;
use crate::table::PageTable;
use crate::tables::Reserve;
use crate::walk::{Table, Visit};

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// Folds what holds `at` as far up as it goes within a range: as plans of one [`crate::Change::Collapse`] each do, first of the
    /// smallest block that holds `at`, then of the next larger one or contiguous group, up to the first that does not fold. Tables
    /// beside the way stay as they are, and so nothing folds that holds one. Gives the size of what holds `at` then: of a leaf, valid
    /// or kept, or of a hole.
    ///
    /// It takes no tables. Without a licence nothing that is live changes.
    pub fn fold_up(
        &mut self,
        at: R::Input,
        within: &Range<R::Input>,
        licence: Option<&Licence<'_>>,
        gather: &mut Gather<G, R>,
    ) -> LeafSize {
        let bounds = self.geometry.offsets(within.start.bits(), within.end.bits());
        let (Some(at), Some((from, to))) = (self.geometry.offset(at.bits()), bounds) else { return LeafSize::PAGE };
        let mut reserve = Reserve::new();
        let mut editor = Editor::new(Terms { table: self, licence }, &mut reserve, gather);
        editor.fold_below(self.top, at, (from, to)).0
    }

    /// All of the slot at `slot`, whose span holds `at`.
    fn whole(&self, slot: Slot, level: Level, at: u64) -> Visit {
        let bytes = 1 << Geometry::<G>::shift(level);
        let start = at & !(bytes - 1);
        Visit::new::<G>(slot, level, self.platform.load(slot), start, start + bytes)
    }
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// Folds what holds `at` in `table` and below it. The size of what holds `at` then, and whether `table` may fold in its turn.
    fn fold_below(&mut self, table: Table, at: u64, bounds: (u64, u64)) -> (LeafSize, bool) {
        let page_table = self.terms.table;
        let mut visit = page_table.whole(table.slot::<G>(at), table.level, at);
        if let Some(below) = visit.table(self.geometry) {
            let (size, may_fold) = self.fold_below(below, at, bounds);
            if !may_fold || visit.start < bounds.0 || bounds.1 < visit.end {
                return (size, false);
            }
            let decision = page_table.decide_fold(&visit, false);
            self.fold_in_turn(&decision, &visit);
            visit = page_table.whole(visit.slot, visit.level, at);
            if visit.table(self.geometry).is_some() {
                if below.level == Level::L3 {
                    // Its pages fold at least into groups.
                    let goal = Goal { from: visit.start, to: visit.end, wanted: Wanted::Group, refuses_holes: false };
                    apply_from(self, &goal, below, goal.from);
                }
                return (size, false);
            }
        }
        let is_group = visit.level != Level::L3 && self.group(&visit, bounds);
        (LeafSize { level: visit.level, contiguous: is_group || visit.descriptor.is_contiguous() }, true)
    }

    /// Makes a group of what stands beside the leaf at `visit`, if that is alike and within `bounds`; whether it did.
    fn group(&mut self, visit: &Visit, bounds: (u64, u64)) -> bool {
        let table = self.terms.table;
        let Some(bytes) = table.content(visit).group_bytes::<G>(visit.level) else { return false };
        let from = visit.start & !(bytes - 1);
        let goal = Goal { from, to: from + bytes, wanted: Wanted::Group, refuses_holes: false };
        if goal.from < bounds.0 || bounds.1 < goal.to {
            return false;
        }
        let slot = visit.slot.before(((visit.start - from) >> Geometry::<G>::shift(visit.level)) as usize);
        let group = table.meet_candidate(&goal, &table.whole(slot, visit.level, from));
        let decision = table.decide_group(&group);
        self.fold_in_turn(&decision, &group)
    }

    /// Carries out a decision after others of the same gather: what those have left to forget there is forgotten before. Says
    /// whether there was anything to be done.
    fn fold_in_turn(&mut self, decision: &Decision, visit: &Visit) -> bool {
        let is_any = !matches!(decision, Decision::Enter | Decision::Pass);
        if is_any {
            self.gather.complete_overlap(self.platform, visit.start, visit.end);
            self.carry_out(decision, visit);
        }
        is_any
    }
}
