//! A page table whose granule is a value.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

use hardware::platform::Hardware;
use hardware::translation::Translation;
use pagetable::{Change, El1, Entry, Licence, Lookup, Refusal, Summary};
use vmsa::{AddressHalf, Granule4K, Granule16K, Granule64K, LeafSize, Level, PageSize, PhysAddr, VirtAddr};

use super::granular::{Granular, Operations};
use super::{Shape, TableSource};

/// A page table of the kernel.
#[derive(Clone, Copy)]
pub(crate) struct AnyTable {
    pub(super) hardware: Hardware,
    pub(super) shape: Shape,
    pub(super) half: AddressHalf,
    pub(super) regime: El1,
    pub(super) root: PhysAddr,
    operations: &'static dyn Operations,
}

/// Why a page table was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChangeError {
    /// The engine's reason.
    Refused(Refusal),
    /// There is no memory for tables.
    NoTables,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NoTables => f.write_str("no memory for tables"),
        }
    }
}

impl From<Refusal> for ChangeError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The choice of granule: the only one. Everything below the pointer is compiled for it.
fn operations(page_size: PageSize) -> &'static dyn Operations {
    match page_size {
        PageSize::Size4K => &Granular::<Granule4K>(PhantomData),
        PageSize::Size16K => &Granular::<Granule16K>(PhantomData),
        PageSize::Size64K => &Granular::<Granule64K>(PhantomData),
    }
}

impl AnyTable {
    /// Builds a page table by making these changes, one after the other, to nothing. No CPU walks it yet, but one may
    /// from now on.
    pub(crate) fn build(
        hardware: Hardware,
        shape: Shape,
        half: AddressHalf,
        regime: El1,
        changes: &mut dyn Iterator<Item = Change<El1>>,
        source: &mut dyn TableSource,
    ) -> Result<Self, ChangeError> {
        let operations = operations(shape.page_size);
        let nowhere = Self { hardware, shape, half, regime, root: PhysAddr::new(0), operations };
        let root = operations.build(&nowhere, changes, source)?;
        Ok(Self { root, ..nowhere })
    }

    /// The page table that this CPU walks for one half, if its registers make sense.
    pub(crate) fn read_current(hardware: Hardware, half: AddressHalf, regime: El1) -> Option<Self> {
        let (shape, root) = Shape::of(&Translation::read(), half)?;
        Some(Self { hardware, shape, half, regime, root, operations: operations(shape.page_size) })
    }

    /// Where its root is.
    pub(crate) fn root(&self) -> PhysAddr {
        self.root
    }

    /// How its tables are reached.
    pub(crate) fn hardware(&self) -> Hardware {
        self.hardware
    }

    /// The level of its root.
    pub(crate) fn start(&self) -> Level {
        self.operations.start(self)
    }

    /// Its shape.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// The range of addresses that it translates; its end is 0 for the upper half.
    pub(crate) fn range(&self) -> Range<VirtAddr> {
        self.operations.range(self)
    }

    /// Makes changes to the live page table, all of them or none. They are complete, on every CPU, when this returns.
    pub(crate) fn change(
        &self,
        changes: &[Change<El1>],
        licence: Option<&Licence>,
        source: &mut dyn TableSource,
    ) -> Result<(), ChangeError> {
        self.operations.change(self, changes, licence, source)
    }

    /// Gives `sink` the descriptors that a walk for an address reads, from the root down.
    pub(crate) fn walk(&self, address: VirtAddr, sink: &mut dyn FnMut(&Lookup)) {
        self.operations.walk(self, address, sink)
    }

    /// Gives `sink` every descriptor of a range, in order of address.
    pub(crate) fn for_each(
        &self,
        range: Range<VirtAddr>,
        sink: &mut dyn FnMut(&Entry<VirtAddr>),
    ) -> Result<(), Refusal> {
        self.operations.for_each(self, range, sink)
    }

    /// Where the tables lead an address, and with what leaf.
    pub(crate) fn translate(&self, address: VirtAddr) -> Option<pagetable::Translation> {
        self.operations.translate(self, address)
    }

    /// Counts the leaves and tables of a range.
    pub(crate) fn summary(&self, range: Range<VirtAddr>) -> Result<Summary, Refusal> {
        self.operations.summary(self, range)
    }

    /// The leaves of one size in a summary of this page table.
    pub(crate) fn leaves(&self, summary: &Summary, size: LeafSize) -> usize {
        self.operations.leaves(summary, size)
    }
}
