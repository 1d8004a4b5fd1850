//! A page table, whose walks begin at one root, and who uses it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::entry::SpaceId;
use super::found::Start;
use super::holders::Holders;
use super::passed::Passed;
use super::stale::Mark;
use crate::context::{Regime, Stage1, Stage2, Tag};
use crate::descriptor::{Format, Hierarchy};
use crate::geometry::Geometry;

/// A page table with everything that decides how it is walked, except the ASID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Space {
    /// Stage 1.
    One(Stage1),
    /// Stage 2.
    Two(Stage2),
}

impl Space {
    /// Regime and VMID of its entries.
    pub const fn tag(&self) -> Tag {
        match self {
            Self::One(stage1) => stage1.tag,
            Self::Two(stage2) => Tag::stage2(stage2.vmid),
        }
    }

    /// Its shape.
    pub const fn geometry(&self) -> &Geometry {
        match self {
            Self::One(stage1) => &stage1.geometry,
            Self::Two(stage2) => &stage2.geometry,
        }
    }

    /// Address of its root.
    pub const fn root(&self) -> u64 {
        match self {
            Self::One(stage1) => stage1.root,
            Self::Two(stage2) => stage2.root,
        }
    }

    /// True when the root is beyond the output size: every walk takes an Address size fault.
    pub(crate) const fn is_beyond(&self) -> bool {
        self.root() >> self.geometry().output_bits != 0
    }

    /// Lowest and highest input address.
    pub const fn bounds(&self) -> (u64, u64) {
        match self {
            Self::One(stage1) => stage1.bounds(),
            Self::Two(stage2) => (0, stage2.geometry.input_mask()),
        }
    }

    /// The stage 2 beneath a stage 1.
    pub const fn stage2(&self) -> Option<&Stage2> {
        match self {
            Self::One(stage1) => stage1.stage2.as_ref(),
            Self::Two(_) => None,
        }
    }

    /// The root, about to be walked.
    pub(super) fn start(&self) -> Start {
        let (table, level, base) = (self.root(), self.geometry().start_level, self.bounds().0);
        Start { table, is_located: false, level, base, hierarchy: Hierarchy::default() }
    }

    pub(crate) const fn format(&self) -> Format<'_> {
        match self {
            Self::One(stage1) => Format::Stage1(stage1),
            Self::Two(stage2) => Format::Stage2(stage2),
        }
    }

    /// True when its walks are tagged with an ASID.
    pub const fn has_asid(&self) -> bool {
        matches!(self.tag().regime, Regime::El10 | Regime::El20)
    }
}

/// Contexts that CPUs left, and the TLBIs that will end what they may have kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    pub(crate) holders: Holders,
    pub(crate) marks: Vec<Mark>,
    pub(crate) passed: Passed,
}

/// A page table and who uses it.
#[derive(Clone, Debug)]
pub(crate) struct SpaceState {
    pub(crate) space: Space,
    pub(crate) beneath: Option<SpaceId>,
    /// CPUs whose walkers may start from its root, by ASID.
    pub(crate) live: Holders,
    /// CPUs that may hold entries from when it was live. The key `GLOBAL` stands for global entries alone.
    pub(crate) kept: Kept,
    /// For (word, value): holders of `kept` that had left before the value was stored.
    pub(crate) hidden: BTreeMap<(u64, u64), Holders>,
    pub(crate) has_global: bool,
    /// Tables that nobody could walk to were forgotten while nobody was live; who comes may walk there again.
    pub(crate) is_forgotten: bool,
    /// Beneath a stage 2: the intermediate pages where its tables begin.
    pub(crate) tables: BTreeSet<u64>,
}

impl SpaceState {
    pub(crate) fn is_used(&self) -> bool {
        !self.live.is_empty() || !self.kept.holders.is_empty()
    }
}

/// True for a space whose stage 1 is off.
pub(crate) const fn is_flat(space: &Space) -> bool {
    matches!(space, Space::One(Stage1 { is_flat: true, .. }))
}
