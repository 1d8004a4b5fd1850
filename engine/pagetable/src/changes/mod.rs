//! What a change means for each thing it meets, what that costs, and how it is carried out.
//!
//! ```text
//!            visit ──meet──▶ one descriptor, or a contiguous group whole
//!              │
//!              ▼
//!          Goal::decide ──▶ Decision ──┬─ Terms::cost        planning: tables it takes, or why it is refused
//!                                      └─ Editor::carry_out  applying: stores, orders, forgets
//! ```
//! Planning and applying walk alike and decide alike; what planning counts, applying does. Each kind of change has one file
//! with all three parts: `map`, `edit`, `split`, `fold`, `group`. This file says which of them a change comes to.

mod edit;
mod editor;
mod fold;
mod goal;
mod group;
mod map;
mod split;
mod steps;
mod terms;

use vmsa::{Descriptor, Geometry, Granule, Level, Meaning};

pub(crate) use edit::Edit;
pub(crate) use editor::Editor;
pub(crate) use goal::{Goal, goal};
pub(crate) use steps::Writer;
pub(crate) use terms::Terms;

use crate::change::Refusal;
use crate::pieces::{Content, Pieces};
use crate::platform::Platform;
use crate::regime::Regime;
use crate::walk::Visit;
use goal::Wanted;
use group::Regroup;
use split::Part;

/// What is to be done at a visit.
#[derive(Debug)]
pub(crate) enum Decision {
    /// Not to be done: nothing has been stored.
    Refuse(Refusal),
    /// The walker goes into the table.
    Enter,
    /// The walker goes on.
    Pass,
    /// What TLBs cannot hold becomes a leaf, valid or kept, or a hole.
    Make(Descriptor),
    /// Holes, up to this offset, become leaves.
    Fill(Content, u64),
    /// What TLBs cannot hold becomes a table.
    Link(Pieces),
    /// A leaf changes in place, and so do those that follow and are alike, up to this offset.
    Set(Edit, u64),
    /// What the engine does not make becomes a hole.
    Clear,
    /// A table becomes a hole or a kept leaf.
    Unlink(Descriptor),
    /// A leaf becomes another leaf, in a way that no CPU tolerates while it is live.
    Remake(Descriptor),
    /// A leaf or table becomes what these pieces say, in a way that no CPU tolerates while it is live.
    Rebuild(Pieces),
    /// A leaf becomes a table, of which a part is edited.
    Resize(Part),
    /// A table becomes a leaf.
    Fold(Descriptor),
    /// A contiguous group is changed, dissolved or made.
    Regroup(Regroup),
}

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

#[inline(always)]
pub(super) fn state<G: Granule>(geometry: Geometry<G>, level: Level, descriptor: Descriptor) -> State {
    let meaning = |descriptor: Descriptor| descriptor.meaning(G::PAGE_SIZE, geometry.layout(), level);
    match meaning(descriptor) {
        Meaning::Table(_) => State::Table,
        Meaning::Leaf(..) => State::Leaf,
        Meaning::Reserved => State::Foreign,
        Meaning::Invalid if descriptor == Descriptor::INVALID => State::Hole,
        Meaning::Invalid => match meaning(Descriptor::new(descriptor.bits() | Descriptor::VALID)) {
            Meaning::Leaf(..) => State::Kept,
            _ => State::Foreign,
        },
    }
}

impl Goal {
    /// What the change means for what `visit` has met ([`Self::meet`]).
    #[inline(always)]
    pub(crate) fn decide<G: Granule, R: Regime, P: Platform>(
        &self,
        platform: &P,
        geometry: Geometry<G>,
        regime: R,
        visit: &Visit,
    ) -> Decision {
        let state = state(geometry, visit.level, visit.descriptor);
        let not_mapped = Decision::Refuse(Refusal::NotMapped(geometry.input(visit.from)));
        match (self.wanted, state) {
            // A table that is not asked for whole stays, whatever the change is.
            (_, State::Table) if !visit.is_whole() => Decision::Enter,
            (Wanted::Edit(edit), State::Table) => self.decide_edit_of_table(edit),
            (Wanted::Remap(content), State::Table) => {
                self.decide_remap_of_table::<G, R, P>(platform, geometry, regime, content, visit)
            }
            (Wanted::Fold, State::Table) => fold::decide_table::<G, R, P>(platform, geometry, regime, visit),
            (_, State::Table) => Decision::Enter,
            (Wanted::Map(content) | Wanted::Remap(content), State::Hole) => {
                self.decide_hole(platform, geometry, content, visit)
            }
            (Wanted::Map(_), _) => Decision::Refuse(Refusal::AlreadyMapped(geometry.input(visit.from))),
            (Wanted::Remap(content), State::Leaf | State::Kept) => {
                self.decide_remap(platform, geometry, regime, content, visit)
            }
            (Wanted::Edit(edit), State::Leaf) => self.decide_leaf(platform, geometry, regime, edit, visit),
            (Wanted::Edit(edit), State::Kept) => self.decide_kept(platform, geometry, edit, visit),
            (Wanted::Edit(edit), State::Foreign) if edit.removes() && visit.is_whole() => Decision::Clear,
            (Wanted::Edit(_), State::Foreign) | (Wanted::Remap(_), State::Foreign) => not_mapped,
            (Wanted::Edit(_), State::Hole) if self.refuses_holes => not_mapped,
            (Wanted::Split, State::Leaf | State::Kept) => self.decide_split(geometry, visit),
            (Wanted::Pages, State::Leaf | State::Kept) => split::decide_pages(geometry, visit),
            (Wanted::Group, State::Leaf) => group::decide_group::<G, R, P>(platform, geometry, regime, visit),
            _ => Decision::Pass,
        }
    }

    /// What the change meets at `visit`: of a contiguous group, all of it, unless its members change one by one.
    #[inline(always)]
    pub(crate) fn meet<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> Visit {
        match self.wanted {
            Wanted::Group => group::candidate(geometry, visit, self.to),
            _ if !visit.descriptor.is_contiguous() => *visit,
            _ => self.meet_group(geometry, visit),
        }
    }

    /// Up to where neither the range nor the table of `visit` ends amid a leaf, be it a contiguous group.
    fn whole_to<G: Granule>(&self, geometry: Geometry<G>, visit: &Visit) -> u64 {
        let group = vmsa::LeafSize::group(visit.level).size_bytes(G::PAGE_SIZE);
        (self.to & !(group - 1)).min(geometry.table_end(visit.level, visit.start)).max(visit.end)
    }

    pub(super) const fn covers(&self, start: u64, end: u64) -> bool {
        self.from <= start && end <= self.to
    }
}
