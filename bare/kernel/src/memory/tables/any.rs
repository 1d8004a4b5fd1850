//! A page table whose granule is a value.

use core::ops::Range;

use common::supply::{ChangeError, TableSource};
use hardware::platform::Hardware;
use hardware::translation::Translation;
use linearmap::{Cpu, Leaves, Refused, Region};
use pagetable::{Change, El1, Entry, Licence, Lookup, Refusal, Summary};
use vmsa::{AddressHalf, Granule4K, Granule16K, Granule64K, LeafSize, Level, PageSize, PhysAddr, VirtAddr};

use super::Shape;
use super::granular::{Granular, Operations, Parts};
use super::linear::{Linear, Painted};
use crate::memory::reach::Reach;

/// A page table of the kernel.
#[derive(Clone, Copy)]
pub(crate) struct AnyTable {
    parts: Parts,
    operations: &'static dyn Operations,
}

/// The choice of granule. Everything below the pointer is compiled for it.
fn operations(page_size: PageSize) -> &'static dyn Operations {
    static OF_4K: Granular<Granule4K> = Granular::new();
    static OF_16K: Granular<Granule16K> = Granular::new();
    static OF_64K: Granular<Granule64K> = Granular::new();
    if cfg!(feature = "fixed-4k") {
        return &OF_4K;
    }
    match page_size {
        PageSize::Size4K => &OF_4K,
        PageSize::Size16K => &OF_16K,
        PageSize::Size64K => &OF_64K,
    }
}

/// Bytes of data that pages of one size alone need.
pub(crate) fn data_bytes(page_size: PageSize) -> u64 {
    let bytes = match page_size {
        PageSize::Size4K => size_of::<Granular<Granule4K>>(),
        _ if cfg!(feature = "fixed-4k") => 0,
        PageSize::Size16K => size_of::<Granular<Granule16K>>(),
        PageSize::Size64K => size_of::<Granular<Granule64K>>(),
    };
    bytes as u64
}

/// The linear map, if [`AnyTable::adopt`] has taken one over for this page size.
pub(crate) fn linear(page_size: PageSize) -> Option<&'static dyn Linear> {
    operations(page_size).linear()
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
        let nowhere = Parts { hardware, shape, half, regime, root: PhysAddr::new(0) };
        let root = operations.build(&nowhere, changes, source)?;
        Ok(Self { parts: Parts { root, ..nowhere }, operations })
    }

    /// The page table that this CPU walks for one half, if its registers make sense.
    pub(crate) fn read_current(hardware: Hardware, half: AddressHalf, regime: El1) -> Option<Self> {
        let (shape, root) = Shape::of(&Translation::read(), half)?;
        Some(Self { parts: Parts { hardware, shape, half, regime, root }, operations: operations(shape.page_size) })
    }

    /// The page table of the same shape whose root is there.
    pub(crate) fn rooted(self, root: PhysAddr) -> Self {
        Self { parts: Parts { root, ..self.parts }, ..self }
    }

    /// Maps memory at `offset` above its physical addresses.
    pub(crate) fn paint(
        &self,
        regions: &[Region],
        offset: u64,
        leaves: Leaves,
        source: &mut dyn TableSource,
    ) -> Result<(), Refused> {
        self.operations.paint(&self.parts, regions, offset, leaves, source)
    }

    /// Takes over what was painted, for [`linear`] to find: the CPU `first` alone walks it.
    pub(crate) fn adopt(&self, reach: Reach, painted: Painted, first: Cpu) -> Result<(), Refused> {
        self.operations.adopt(&self.parts, reach, painted, first)
    }

    /// Where its root is.
    pub(crate) fn root(&self) -> PhysAddr {
        self.parts.root
    }

    /// How its tables are reached.
    pub(crate) fn hardware(&self) -> Hardware {
        self.parts.hardware
    }

    /// The level of its root.
    pub(crate) fn start(&self) -> Level {
        self.operations.start(&self.parts)
    }

    /// Its shape.
    pub(crate) fn shape(&self) -> Shape {
        self.parts.shape
    }

    /// The range of addresses that it translates; its end is 0 for the upper half.
    pub(crate) fn range(&self) -> Range<VirtAddr> {
        self.operations.range(&self.parts)
    }

    /// Makes changes to the live page table, all of them or none. They are complete, on every CPU, when this returns.
    pub(crate) fn change(
        &self,
        changes: &[Change<El1>],
        licence: Option<&Licence>,
        source: &mut dyn TableSource,
    ) -> Result<(), ChangeError> {
        self.operations.change(&self.parts, changes, licence, source)
    }

    /// Gives `sink` the descriptors that a walk for an address reads, from the root down.
    pub(crate) fn walk(&self, address: VirtAddr, sink: &mut dyn FnMut(&Lookup)) {
        self.operations.walk(&self.parts, address, sink)
    }

    /// Gives `sink` every descriptor of a range, in order of address.
    pub(crate) fn for_each(
        &self,
        range: Range<VirtAddr>,
        sink: &mut dyn FnMut(&Entry<VirtAddr>),
    ) -> Result<(), Refusal> {
        self.operations.for_each(&self.parts, range, sink)
    }

    /// Where the tables lead an address, and with what leaf.
    pub(crate) fn translate(&self, address: VirtAddr) -> Option<pagetable::Translation> {
        self.operations.translate(&self.parts, address)
    }

    /// Counts the leaves and tables of a range.
    pub(crate) fn summary(&self, range: Range<VirtAddr>) -> Result<Summary, Refusal> {
        self.operations.summary(&self.parts, range)
    }

    /// The leaves of one size in a summary of this page table.
    pub(crate) fn leaves(&self, summary: &Summary, size: LeafSize) -> usize {
        self.operations.leaves(summary, size)
    }
}
