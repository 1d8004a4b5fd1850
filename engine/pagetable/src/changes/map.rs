//! Mapping: holes become leaves and tables; with remap, so does whatever stands there.
//!
//! ```text
//! holes that whole leaves fill    one run of stores, however many
//! a hole that they do not fill    a table, filled and then linked
//! a leaf or table, remapped       stays if it is already what it would become; else by break-before-make
//! a live table, nothing valid     stays, and what it holds becomes leaves one by one
//! a group, remapped               stays, or dissolves, and its members are met one by one
//! ```

use vmsa::{Descriptor, Geometry, Granule, LeafSize};

use super::decision::Regroup;
use super::steps::Built;
use super::{Decision, Editor, Goal, Terms};
use crate::alike::count_alike;
use crate::invalidation::Depth;
use crate::pieces::{Content, Kind, Pieces};
use crate::platform::Platform;
use crate::regime::{Regime, marks};
use crate::table::PageTable;
use crate::walk::{Next, Visit};

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    pub(super) fn decide_hole(&self, goal: &Goal, content: Content, visit: &Visit) -> Decision {
        let pieces = goal.replacing(content, None);
        let segment = pieces.segment(self.geometry, visit.level, visit.start, goal.to);
        let Kind::Leaves(content) = segment.kind else {
            return Decision::Link(pieces);
        };
        let shift = Geometry::<G>::shift(visit.level);
        let limit = segment.end.min(self.geometry.table_end(visit.level, visit.start));
        // Up to the first that holds something, be it an empty table.
        let slots = ((limit - visit.start) >> shift) as usize;
        let (holes, _) = count_alike(self.platform, visit.slot, slots, Descriptor::INVALID, 0, 0);
        Decision::Fill(*content, visit.start + ((holes as u64) << shift))
    }

    /// Leaf by leaf nothing may be left to do, or nothing that any TLB knows of, where another table or a leaf would need
    /// break-before-make.
    pub(super) fn decide_remap_of_table(&self, goal: &Goal, content: Content, visit: &Visit) -> Decision {
        let is_as_asked = || !content.fits(self.geometry, visit.level) && self.holds(visit, &content);
        if is_as_asked() || self.is_live && self.holds_nothing_valid(visit) {
            return Decision::Enter;
        }
        Decision::Rebuild(goal.replacing(content, None))
    }

    /// A leaf gives way to other content, unless it differs by marks alone, which come when they come. A group dissolves
    /// first, and its members are met one by one.
    pub(super) fn decide_remap(&self, goal: &Goal, content: Content, visit: &Visit) -> Decision {
        let marks = marks::writable(self.regime, content.attributes) | Descriptor::CONTIGUOUS;
        let is_as_asked = |member: Visit| {
            let becomes = content.leaf(self.geometry.layout(), member.level, member.start);
            (member.descriptor.bits() ^ becomes.bits()) & !marks == 0
        };
        let size = LeafSize { level: visit.level, contiguous: visit.is_group() };
        if content.largest.allows(size) && visit.asked_for::<G, P>(self.platform).all(is_as_asked) {
            return Decision::Pass;
        }
        if visit.is_group() {
            return Decision::Regroup(Regroup::Dissolve);
        }
        let pieces = goal.replacing(content, (!visit.is_whole()).then(|| self.content(visit)));
        match (self.leaf_of(visit, &pieces), visit.descriptor.is_valid()) {
            (Some(leaf), true) => Decision::Remake(leaf),
            (Some(leaf), false) => Decision::Make(leaf),
            (None, true) => Decision::Rebuild(pieces),
            (None, false) => Decision::Link(pieces),
        }
    }

    /// The one leaf that holds `pieces` in the slot of `visit`, if one can.
    fn leaf_of(&self, visit: &Visit, pieces: &Pieces) -> Option<Descriptor> {
        match pieces.segment(self.geometry, visit.level, visit.start, visit.end).kind {
            Kind::Leaves(content) => Some(content.leaf(self.geometry.layout(), visit.level, visit.start)),
            _ => None,
        }
    }
}

impl Goal {
    /// What a stretch holds when the range has new content.
    const fn replacing(&self, content: Content, outside: Option<Content>) -> Pieces {
        Pieces { from: self.from, to: self.to, inside: Some(content), outside }
    }
}

impl<G: Granule, R: Regime, P: Platform> Terms<'_, G, R, P> {
    /// Tables for what takes the place of a whole descriptor: none if a leaf does.
    pub(super) fn tables_to_rebuild(&self, visit: &Visit, pieces: &Pieces) -> usize {
        if self.table.leaf_of(visit, pieces).is_some() { 0 } else { self.tables_below(visit, pieces) }
    }
}

impl<G: Granule, R: Regime, P: Platform> Editor<'_, G, R, P> {
    /// Holes become leaves. Holes and members of one group may stand side by side (IPGVGZ).
    pub(super) fn fill(&mut self, visit: &Visit, content: &Content, end: u64) -> Next {
        content.write_leaves(self.geometry, visit.level, (visit.start, end), |index, leaf| {
            self.write(visit.slot.after(index), leaf);
        });
        self.note_store();
        Next::Past(end)
    }

    /// What TLBs cannot hold becomes a table.
    pub(crate) fn link(&mut self, visit: &Visit, pieces: &Pieces) {
        if let Some(table) = self.build(visit, pieces) {
            self.make(visit.slot, table);
        }
    }

    /// A leaf or table becomes something else altogether by break-before-make.
    pub(super) fn rebuild(&mut self, visit: &Visit, pieces: &Pieces) {
        let new = self.terms.table.leaf_of(visit, pieces).or_else(|| self.build(visit, pieces));
        let Some(new) = new else { return };
        let (page_table, table) = (self.terms.table, visit.table(self.geometry));
        let depth = if table.is_some() { Depth::AllLevels } else { Depth::LastLevel };
        self.exchange_broken(visit, depth, |editor, broken| {
            let built = Built { leaf: visit.descriptor, table: new };
            let new = editor.build_again(visit, built, broken, |visit| Pieces {
                outside: pieces.outside.map(|_| page_table.content(visit)),
                ..*pieces
            });
            editor.write(visit.slot, new);
        });
        if let Some(table) = table {
            self.gather.retire(self.platform, table);
        }
    }
}
