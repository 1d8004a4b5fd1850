//! The page table that holds a linear map, and how large its leaves may be.

use core::ops::Range;

use pagetable::El1;
use vmsa::{Geometry, Granule, LeafSize, Level, PhysAddr, Stage1Attributes, VirtAddr};

/// How large leaves may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// As large as they can be, contiguous groups among them; what is split folds again.
    Largest,
    /// Blocks and pages, and no contiguous groups; what is split folds again.
    Blocks,
    /// Pages, for ever: to compare with.
    Pages,
}

impl Leaves {
    /// What bounds them.
    pub(crate) const fn largest(self) -> LeafSize {
        match self {
            Self::Largest => LeafSize::LARGEST,
            Self::Blocks => LeafSize::single(Level::MINUS_1),
            Self::Pages => LeafSize::PAGE,
        }
    }
}

/// A page table that holds a linear map.
#[derive(Clone, Debug)]
pub struct Map<G: Granule> {
    /// Where its root is.
    pub root: PhysAddr,
    /// Its shape.
    pub geometry: Geometry<G>,
    /// Its regime. What TLB maintenance can do is taken from the CPUs, and not from here.
    pub regime: El1,
    /// What is linear map of it: alone there leaves fold.
    pub range: Range<VirtAddr>,
    /// How large its leaves may be.
    pub leaves: Leaves,
    /// Bytes of memory that are mapped, or may come.
    pub memory_bytes: u64,
}

/// The attributes of leaves that are painted.
pub(crate) const fn as_painted(attributes: Stage1Attributes) -> Stage1Attributes {
    attributes.union(Stage1Attributes::AF).difference(Stage1Attributes::DBM)
}
