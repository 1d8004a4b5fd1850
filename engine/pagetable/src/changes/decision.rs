//! What is decided for what a change meets.

use vmsa::{Descriptor, LeafSize};

use super::Edit;
use crate::change::Refusal;
use crate::pieces::{Content, Pieces};
use crate::walk::Visit;

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

/// A part of a leaf, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) edit: Edit,
    /// The largest leaf that may hold it.
    pub(super) largest: LeafSize,
}

impl Part {
    /// The part of a leaf that is asked for.
    pub(super) const fn of(visit: &Visit, edit: Edit) -> Self {
        Self { from: visit.from, to: visit.to, edit, largest: LeafSize::LARGEST }
    }
}

/// What becomes of a contiguous group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Regroup {
    /// What is asked for of it is edited. The flag tells whether it is a group afterwards.
    Edit(Edit, bool),
    /// Its members become leaves of their own, and are met again as such.
    Dissolve,
    /// Leaves that are alike become a group.
    Make,
}

impl Regroup {
    pub(super) const fn edit(self) -> Edit {
        match self {
            Self::Edit(edit, _) => edit,
            Self::Dissolve | Self::Make => Edit::KEEP,
        }
    }

    pub(super) const fn becomes_group(self) -> bool {
        matches!(self, Self::Edit(_, true) | Self::Make)
    }
}
