//! The kernel's own map, built while the first identity map is in use.

use core::ops::Range;

use common::supply::{ChangeError, TableSource};
use hardware::image;
use hardware::platform::Hardware;
use kerncore::early::{EarlyAllocator, EarlyError, End, Request};
use kerncore::linear::Linear;
use kerncore::list::List;
use kerncore::memory_map::{MAX_RANGES, MemoryMap, Purpose};
use kerncore::range::PhysicalRange;
use pagetable::{Change, El1, Scope};
use vmsa::{AddressHalf, PhysAddr, Stage1Attributes};

use crate::cpus::stacks::{self, Kind};
use crate::memory::devices::Placement;
use crate::memory::tables::{AnyTable, CAUTIOUS, DEVICE, EXECUTABLE, READ_ONLY, READ_WRITE, Shape, map};

/// Why the map could not be built.
#[derive(Debug)]
pub(super) enum MapError {
    Stacks(EarlyError),
    Tables(ChangeError),
}

impl core::fmt::Display for MapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Stacks(error) => error.fmt(f),
            Self::Tables(error) => write!(f, "kernel map: {error}"),
        }
    }
}

/// Memory that the identity map holds, to be given out from its top.
pub(super) struct EarlyMemory<'m> {
    allocator: EarlyAllocator<'m>,
    pool: PhysicalRange,
    /// Tables that were given back.
    spare: List<PhysAddr, 16>,
    shape: Shape,
}

impl<'m> EarlyMemory<'m> {
    pub(super) fn new(map: &'m mut MemoryMap, pool: PhysicalRange, shape: Shape) -> Self {
        let allocator = EarlyAllocator::new(map, shape.page_size);
        Self { allocator, pool, spare: List::new(PhysAddr::new(0)), shape }
    }

    fn allocate(&mut self, size_bytes: u64, purpose: Purpose) -> Result<PhysicalRange, EarlyError> {
        let alignment_bytes = self.shape.page_size.size_bytes();
        let request = Request { size_bytes, alignment_bytes, below: self.pool.end, from: End::Top, purpose };
        // Below the pool there is memory too, but no map leads to it yet.
        self.allocator.allocate(&request).and_then(|range| match self.pool.covers(&range) {
            true => Ok(range),
            false => Err(EarlyError::NoMemory(request)),
        })
    }
}

impl TableSource for EarlyMemory<'_> {
    fn take(&mut self) -> Option<PhysAddr> {
        if let Some(last) = self.spare.len().checked_sub(1) {
            return Some(self.spare.remove(last));
        }
        Some(self.allocate(self.shape.page_size.size_bytes(), Purpose::Tables).ok()?.start)
    }

    /// Beyond the capacity a page is lost: an engine that overestimates so much would be the thing to mend.
    fn give(&mut self, table: PhysAddr) {
        self.spare.push(table).ok();
    }
}

/// The upper half: the linear map, the image, the boot CPU's stacks, devices.
pub(super) fn build_upper(
    hardware: Hardware,
    linear: Linear,
    devices: &Placement,
    memory: &mut EarlyMemory,
) -> Result<AnyTable, MapError> {
    let page_size = memory.shape.page_size;
    let mut stacks: [(Range<u64>, u64); Kind::ALL.len()] = Default::default();
    for (place, kind) in stacks.iter_mut().zip(Kind::ALL) {
        let frames = memory.allocate(kind.size_bytes(page_size), Purpose::Stacks).map_err(MapError::Stacks)?;
        *place = (frames.start.bits()..frames.end.bits(), stacks::range(0, kind, page_size).start);
    }
    let mut ranges = List::<_, MAX_RANGES>::new(PhysicalRange::EMPTY);
    for range in memory.allocator.map().mapped(page_size) {
        ranges.push(range).expect("the list is as long as the map");
    }
    let mut changes = linear_changes(&ranges, linear)
        .chain(image_changes())
        .chain(stacks.iter().map(|(frames, at)| map(frames.clone(), *at, READ_WRITE)))
        .chain(devices.regions().map(|(registers, at)| map(registers, at, DEVICE)));
    AnyTable::build(hardware, memory.shape, AddressHalf::Upper, CAUTIOUS, &mut changes, memory)
        .map_err(MapError::Tables)
}

/// The lower half: what must run at its physical address.
pub(super) fn build_lower(hardware: Hardware, memory: &mut EarlyMemory) -> Result<AnyTable, MapError> {
    let text = image::identity_text();
    // Not global: an address space of a process may use these addresses under its own ASID.
    let attributes = EXECUTABLE.union(Stage1Attributes::NOT_GLOBAL);
    let mut changes = core::iter::once(map(text.clone(), text.start, attributes));
    let regime = El1 { scope: Scope::Asid(0), ..CAUTIOUS };
    AnyTable::build(hardware, memory.shape, AddressHalf::Lower, regime, &mut changes, memory).map_err(MapError::Tables)
}

/// All of RAM, text and read-only data not writable.
fn linear_changes(ranges: &[PhysicalRange], linear: Linear) -> impl Iterator<Item = Change<El1>> {
    let protected = image::text().start..image::rodata().end;
    ranges.iter().flat_map(move |range| {
        let (start, end) = (range.start.bits(), range.end.bits());
        // The parts before, in and after what is protected, if they meet at all.
        let from = protected.start.clamp(start, end);
        let to = protected.end.clamp(start, end);
        [(start..from, READ_WRITE), (from..to, READ_ONLY), (to..end, READ_WRITE)]
            .into_iter()
            .filter(|(part, _)| !part.is_empty())
            .map(move |(part, attributes)| {
                let at = linear.address(PhysAddr::new(part.start)).bits();
                map(part, at, attributes)
            })
    })
}

/// The image at its link address, without the room for the first tables: that becomes free memory.
fn image_changes() -> impl Iterator<Item = Change<El1>> {
    let parts = [
        (image::text(), EXECUTABLE),
        (image::rodata(), READ_ONLY),
        (image::data(), READ_WRITE),
        (image::bss(), READ_WRITE),
    ];
    let parts = parts.into_iter().filter(|(part, _)| !part.is_empty());
    parts.map(|(part, attributes)| {
        let at = image::high_address(part.start);
        map(part, at, attributes)
    })
}
