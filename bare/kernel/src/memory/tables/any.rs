//! A page table whose granule is a value.

use core::ops::Range;

use common::supply::{ChangeError, TableSource};
use hardware::platform::Hardware;
use hardware::translation::Translation;
use linearmap::{Cpu, Leaves, LinearMap, Map, Refused, Region};
use pagetable::{Change, El1, Entry, Licence, Lookup, Refusal, Summary};
use spin::Once;
use vmsa::{AddressHalf, Granule, Granule4K, Granule16K, Granule64K, LeafSize, Level, PageSize, PhysAddr, VirtAddr};

use super::Shape;
use super::granular::{
    Parts, build, by_granule, change, for_each, geometry, paint, range, start, summary, translate, walk,
};
use super::linear::{Linear, Of, Painted};
use crate::memory::embedding::Kernel;
use crate::memory::reach::Reach;

/// A page table of the kernel.
#[derive(Clone, Copy)]
pub(crate) struct AnyTable(Parts);

static OF_4K: Once<Of<Granule4K>> = Once::new();
static OF_16K: Once<Of<Granule16K>> = Once::new();
static OF_64K: Once<Of<Granule64K>> = Once::new();

/// Bytes of data that pages of one size alone need.
pub(crate) fn data_bytes(page_size: PageSize) -> u64 {
    let bytes = match page_size {
        PageSize::Size4K => size_of_val(&OF_4K),
        _ if cfg!(feature = "fixed-4k") => 0,
        PageSize::Size16K => size_of_val(&OF_16K),
        PageSize::Size64K => size_of_val(&OF_64K),
    };
    bytes as u64
}

/// Calls a function with the place for the linear map of this page size.
macro_rules! with_place {
    ($page_size:expr, $function:ident($($argument:expr),*)) => {
        match $page_size {
            _ if cfg!(feature = "fixed-4k") => $function(&OF_4K, $($argument),*),
            PageSize::Size4K => $function(&OF_4K, $($argument),*),
            PageSize::Size16K => $function(&OF_16K, $($argument),*),
            PageSize::Size64K => $function(&OF_64K, $($argument),*),
        }
    };
}

/// The linear map, if [`AnyTable::adopt`] has taken one over for this page size.
pub(crate) fn linear(page_size: PageSize) -> Option<&'static dyn Linear> {
    fn get<G: Granule + Send + Sync>(place: &'static Once<Of<G>>) -> Option<&'static dyn Linear> {
        place.get().map(|map| map as &dyn Linear)
    }
    with_place!(page_size, get())
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
        let nowhere = Parts { hardware, shape, half, regime, root: PhysAddr::new(0) };
        let root = by_granule!(shape.page_size, build(&nowhere, changes, source))?;
        Ok(Self(Parts { root, ..nowhere }))
    }

    /// The page table that this CPU walks for one half, if its registers make sense.
    pub(crate) fn read_current(hardware: Hardware, half: AddressHalf, regime: El1) -> Option<Self> {
        let (shape, root) = Shape::of(&Translation::read(), half)?;
        Some(Self(Parts { hardware, shape, half, regime, root }))
    }

    /// The page table of the same shape whose root is there.
    pub(crate) fn rooted(self, root: PhysAddr) -> Self {
        Self(Parts { root, ..self.0 })
    }

    /// Maps memory at `offset` above its physical addresses.
    pub(crate) fn paint(
        &self,
        regions: &[Region],
        offset: u64,
        leaves: Leaves,
        source: &mut dyn TableSource,
    ) -> Result<(), Refused> {
        by_granule!(self.0.shape.page_size, paint(&self.0, regions, offset, leaves, source))
    }

    /// Takes over what was painted, for [`linear`] to find: the CPU `first` alone walks it.
    pub(crate) fn adopt(&self, reach: Reach, painted: Painted, first: Cpu) -> Result<(), Refused> {
        fn fill<G: Granule + Send + Sync>(
            place: &Once<Of<G>>,
            table: &Parts,
            reach: Reach,
            painted: Painted,
            first: Cpu,
        ) -> Result<(), Refused> {
            let Parts { regime, root, .. } = *table;
            let Painted { range, leaves, memory_bytes } = painted;
            let map = Map { root, geometry: geometry(table), regime, range, leaves, memory_bytes };
            place.try_call_once(|| LinearMap::new(Kernel::new(reach), map, first)).map(drop)
        }
        with_place!(self.0.shape.page_size, fill(&self.0, reach, painted, first))
    }

    /// Where its root is.
    pub(crate) fn root(&self) -> PhysAddr {
        self.0.root
    }

    /// How its tables are reached.
    pub(crate) fn hardware(&self) -> Hardware {
        self.0.hardware
    }

    /// The level of its root.
    pub(crate) fn start(&self) -> Level {
        by_granule!(self.0.shape.page_size, start(&self.0))
    }

    /// Its shape.
    pub(crate) fn shape(&self) -> Shape {
        self.0.shape
    }

    /// The range of addresses that it translates; its end is 0 for the upper half.
    pub(crate) fn range(&self) -> Range<VirtAddr> {
        by_granule!(self.0.shape.page_size, range(&self.0))
    }

    /// Makes changes to the live page table, all of them or none. They are complete, on every CPU, when this returns.
    pub(crate) fn change(
        &self,
        changes: &[Change<El1>],
        licence: Option<&Licence>,
        source: &mut dyn TableSource,
    ) -> Result<(), ChangeError> {
        by_granule!(self.0.shape.page_size, change(&self.0, changes, licence, source))
    }

    /// Gives `sink` the descriptors that a walk for an address reads, from the root down.
    pub(crate) fn walk(&self, address: VirtAddr, sink: &mut dyn FnMut(&Lookup)) {
        by_granule!(self.0.shape.page_size, walk(&self.0, address, sink))
    }

    /// Gives `sink` every descriptor of a range, in order of address.
    pub(crate) fn for_each(
        &self,
        range: Range<VirtAddr>,
        sink: &mut dyn FnMut(&Entry<VirtAddr>),
    ) -> Result<(), Refusal> {
        by_granule!(self.0.shape.page_size, for_each(&self.0, range, sink))
    }

    /// Where the tables lead an address, and with what leaf.
    pub(crate) fn translate(&self, address: VirtAddr) -> Option<pagetable::Translation> {
        by_granule!(self.0.shape.page_size, translate(&self.0, address))
    }

    /// Counts the leaves and tables of a range.
    pub(crate) fn summary(&self, range: Range<VirtAddr>) -> Result<Summary, Refusal> {
        by_granule!(self.0.shape.page_size, summary(&self.0, range))
    }

    /// The leaves of one size in a summary of this page table.
    pub(crate) fn leaves(&self, summary: &Summary, size: LeafSize) -> usize {
        fn leaves<G: Granule>(summary: &Summary, size: LeafSize) -> usize {
            summary.leaves::<G>(size)
        }
        by_granule!(self.0.shape.page_size, leaves(summary, size))
    }
}
