//! What a change means for each thing it meets, what that costs, and how it is carried out.
//!
//! ```text
//!            visit ──meet──▶ one descriptor, or a contiguous group whole
//!              │
//!              ▼
//!     PageTable::decide ──▶ Decision ──┬─ Terms::cost        planning: tables it takes, or why it is refused
//!                                      └─ Editor::carry_out  applying: stores, orders, forgets
//! ```
//! Planning and applying walk alike and decide alike; what planning counts, applying does. Each kind of change has one file
//! with all three parts: `map`, `leaf`, `split`, `fold`, `group`. This file says which of them a change comes to.

mod decision;
mod edit;
mod editor;
mod fold;
mod fold_up;
mod goal;
mod group;
mod leading;
mod leaf;
mod map;
mod run;
mod split;
mod steps;
mod terms;

use vmsa::{Descriptor, Geometry, Granule, LeafSize, Level, Meaning};

pub(crate) use decision::Decision;
pub(crate) use edit::Edit;
pub(crate) use editor::Editor;
pub(crate) use goal::Goal;
pub(crate) use leading::{Copied, copy_back, copy_leading};
pub(crate) use steps::Writer;
pub(crate) use terms::{Start, Terms};

use crate::change::Refusal;
use crate::pieces::Content;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::walk::Visit;
use goal::Wanted;

/// What stands in a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Hole,
    Leaf,
    /// A leaf but for bit 0.
    Kept,
    Table,
    /// Nothing the engine makes.
    Foreign,
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// What the change means for what `visit` has met ([`Self::meet`]).
    #[inline(always)]
    pub(crate) fn decide(&self, goal: &Goal, visit: &Visit) -> Decision {
        let not_mapped = Decision::Refuse(Refusal::NotMapped(self.geometry.input(visit.from)));
        match (goal.wanted, self.state(visit)) {
            // A table that is not asked for whole stays, whatever the change is.
            (_, State::Table) if !visit.is_whole() => Decision::Enter,
            // To unmap a table, nothing of what it holds need be looked at.
            (Wanted::Edit(_), State::Table) if goal.clears() => Decision::Unlink(Descriptor::INVALID),
            (Wanted::Remap(content), State::Table) => self.decide_remap_of_table(goal, content, visit),
            (Wanted::Fold, State::Table) => self.decide_fold(visit, true),
            (_, State::Table) => Decision::Enter,
            (Wanted::Map(content) | Wanted::Remap(content), State::Hole) => self.decide_hole(goal, content, visit),
            (Wanted::Map(_), _) => Decision::Refuse(Refusal::AlreadyMapped(self.geometry.input(visit.from))),
            (Wanted::Remap(content), State::Leaf | State::Kept) => self.decide_remap(goal, content, visit),
            (Wanted::Edit(edit), State::Leaf) => self.decide_leaf(goal, edit, visit),
            (Wanted::Edit(edit), State::Kept) => self.decide_kept(edit, visit),
            (Wanted::Edit(edit), State::Foreign) if edit.removes() && visit.is_whole() => Decision::Clear,
            (Wanted::Edit(_), State::Foreign) | (Wanted::Remap(_), State::Foreign) => not_mapped,
            (Wanted::Edit(_), State::Hole) if goal.refuses_holes => not_mapped,
            (Wanted::Split, State::Leaf | State::Kept) => self.decide_split(goal, visit),
            (Wanted::Pages, State::Leaf | State::Kept) => self.decide_pages(visit),
            (Wanted::Group, State::Leaf) => self.decide_group(visit),
            _ => Decision::Pass,
        }
    }

    /// What the change meets at `visit`: of a contiguous group, all of it, unless its members change one by one.
    #[inline(always)]
    pub(crate) fn meet(&self, goal: &Goal, visit: &Visit) -> Visit {
        match goal.wanted {
            Wanted::Group => self.meet_candidate(goal, visit),
            _ if !visit.descriptor.is_contiguous() => *visit,
            _ => self.meet_group(goal, visit),
        }
    }

    #[inline(always)]
    fn state(&self, visit: &Visit) -> State {
        let meaning = |descriptor: Descriptor| descriptor.meaning(G::PAGE_SIZE, self.geometry.layout(), visit.level);
        match meaning(visit.descriptor) {
            Meaning::Table(_) => State::Table,
            Meaning::Leaf(..) => State::Leaf,
            Meaning::Reserved => State::Foreign,
            Meaning::Invalid if visit.descriptor == Descriptor::INVALID => State::Hole,
            Meaning::Invalid => match meaning(Descriptor::new(visit.descriptor.bits() | Descriptor::VALID)) {
                Meaning::Leaf(..) => State::Kept,
                _ => State::Foreign,
            },
        }
    }

    /// What the leaf at `visit` holds, valid or kept.
    pub(crate) fn content(&self, visit: &Visit) -> Content {
        let (layout, leaf) = (self.geometry.layout(), visit.descriptor);
        Content {
            delta: layout.output(leaf, Geometry::<G>::shift(visit.level)).bits().wrapping_sub(visit.start),
            // Of a block's bits those that would be output address in a page are left behind: they are RES0, or nT.
            attributes: leaf.bits() & layout.attribute_mask(G::PAGE_SIZE, Level::L3),
            is_kept: !leaf.is_valid(),
            largest: self.largest,
        }
    }

    /// Up to where neither the range nor the table of `visit` ends amid a leaf, be it a contiguous group.
    #[inline(always)]
    fn whole_to(&self, goal: &Goal, visit: &Visit) -> u64 {
        // One page alone, as most ranges are: it asks for no division into groups.
        if goal.to <= visit.end {
            return visit.end;
        }
        let group = LeafSize::group(visit.level).size_bytes(G::PAGE_SIZE);
        (goal.to & !(group - 1)).min(self.geometry.table_end(visit.level, visit.start)).max(visit.end)
    }
}
