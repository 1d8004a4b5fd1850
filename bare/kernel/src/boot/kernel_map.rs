//! The kernel's own map, built while the first identity map is in use.

use core::ops::Range;

use common::supply::{ChangeError, TableSource};
use hardware::image;
use hardware::parking::BOARD_BYTES;
use hardware::platform::Hardware;
use kerncore::command_line::Rodata;
use kerncore::early::{EarlyAllocator, EarlyError, End, Request};
use kerncore::linear::Linear;
use kerncore::list::List;
use kerncore::memory_map::{MAX_RANGES, MemoryMap, Purpose};
use kerncore::range::PhysicalRange;
use linearmap::{Leaves, Refused, Region};
use pagetable::{Change, El1, Platform, Scope, Slot};
use vmsa::registers::encode_ttbr;
use vmsa::{AddressHalf, Descriptor, PhysAddr, Stage1Attributes};

use crate::cpus::stacks::{self, Kind};
use crate::facts::{Parking, Workshop};
use crate::memory::devices::Placement;
use crate::memory::tables::{AnyTable, CAUTIOUS, DEVICE, EXECUTABLE, READ_ONLY, READ_WRITE, Shape, map, map_pages};
use crate::memory::window;

/// Why the map could not be built.
#[derive(Debug)]
pub(super) enum MapError {
    Early(EarlyError),
    Tables(ChangeError),
    Painting(Refused),
}

impl core::fmt::Display for MapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Early(error) => error.fmt(f),
            Self::Tables(error) => write!(f, "kernel map: {error}"),
            Self::Painting(refused) => write!(f, "linear map: {refused}"),
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

    /// What the linear map is to hold.
    fn mapped(&self) -> List<PhysicalRange, MAX_RANGES> {
        let mut ranges = List::new(PhysicalRange::EMPTY);
        for range in self.allocator.map().mapped(self.shape.page_size) {
            ranges.push(range).expect("the list is as long as the map");
        }
        ranges
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

/// How the upper half is to be.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) linear: Linear,
    pub(super) leaves: Leaves,
    pub(super) rodata: Rodata,
}

/// Where the workshop begins, in the lower half: on a boundary of every leaf, and away from 0.
const WORKSHOP: u64 = 1 << 46;

/// The upper half: the linear map, the image, the boot CPU's stacks, devices.
pub(super) fn build_upper(
    hardware: Hardware,
    how: How,
    devices: &Placement,
    memory: &mut EarlyMemory,
) -> Result<AnyTable, MapError> {
    let page_size = memory.shape.page_size;
    let mut stacks: [(Range<u64>, u64); Kind::ALL.len()] = Default::default();
    for (place, kind) in stacks.iter_mut().zip(Kind::ALL) {
        let frames = memory.allocate(kind.size_bytes(page_size), Purpose::Stacks).map_err(MapError::Early)?;
        *place = (frames.start.bits()..frames.end.bits(), stacks::range(0, kind, page_size).start);
    }
    let mut changes = image_changes(how.rodata)
        .chain(stacks.iter().map(|(frames, at)| map_pages(frames.clone(), *at, READ_WRITE)))
        .chain(devices.regions().map(|(registers, at)| map(registers, at, DEVICE)));
    let table = AnyTable::build(hardware, memory.shape, AddressHalf::Upper, CAUTIOUS, &mut changes, memory)
        .map_err(MapError::Tables)?;
    // One by one: neighbours differ, and what is counted for all together is counted as if no two shared a table.
    let ranges = memory.mapped();
    for region in regions(&ranges, how.rodata) {
        let painted = table.paint(&[region], how.linear.offset(), how.leaves, memory);
        painted.map_err(MapError::Painting)?;
    }
    Ok(table)
}

/// Where the workshop ends, if RAM does at `highest`.
pub(super) fn workshop_end(linear: Linear, highest: u64) -> u64 {
    WORKSHOP + (highest - linear.origin.min(highest))
}

/// Memory for windows: all of RAM, text and constants left out, which no table lies in.
pub(super) fn build_workshop(
    hardware: Hardware,
    linear: Linear,
    memory: &mut EarlyMemory,
) -> Result<Workshop, MapError> {
    let offset = WORKSHOP.wrapping_sub(linear.origin);
    let ranges = memory.mapped();
    let parts = split(&ranges, image::text().start..image::rodata().end);
    let parts = parts.filter(|(_, is_protected)| !is_protected);
    let attributes = READ_WRITE.union(Stage1Attributes::NOT_GLOBAL);
    let mut changes = parts.map(|(part, _)| map(part.clone(), part.start.wrapping_add(offset), attributes));
    let regime = El1 { scope: Scope::Asid(window::ASID), ..CAUTIOUS };
    let table = AnyTable::build(hardware, memory.shape, AddressHalf::Lower, regime, &mut changes, memory);
    let root = table.map_err(MapError::Tables)?.root();
    Ok(Workshop { ttbr0: encode_ttbr(memory.shape.layout, root, window::ASID, false), root, offset })
}

/// The lower half: what must run at its physical address, and the board of those that park there.
pub(super) fn build_lower(hardware: Hardware, memory: &mut EarlyMemory) -> Result<(AnyTable, Parking), MapError> {
    let (text, shape) = (image::identity_text(), memory.shape);
    let board = memory.allocate(shape.page_size.size_bytes(), Purpose::Parking).map_err(MapError::Early)?;
    for word in 0..BOARD_BYTES / size_of::<u64>() as u64 {
        hardware.store(Slot::new(board.start, word as usize), Descriptor::INVALID);
    }
    // Not global: an address space of a process may use these addresses under its own ASID.
    let parts = [(text, EXECUTABLE), (board.start.bits()..board.end.bits(), READ_WRITE)];
    let parts = parts.map(|(part, attributes)| (part, attributes.union(Stage1Attributes::NOT_GLOBAL)));
    let mut changes = parts.into_iter().map(|(part, attributes)| map(part.clone(), part.start, attributes));
    let regime = El1 { scope: Scope::Asid(0), ..CAUTIOUS };
    let lower = AnyTable::build(hardware, shape, AddressHalf::Lower, regime, &mut changes, memory);
    let nothing = AnyTable::build(hardware, shape, AddressHalf::Upper, CAUTIOUS, &mut core::iter::empty(), memory);
    let (lower, nothing) = (lower.map_err(MapError::Tables)?, nothing.map_err(MapError::Tables)?);
    let ttbr = |table: &AnyTable| encode_ttbr(shape.layout, table.root(), 0, false);
    Ok((lower, Parking { board: board.start, ttbr0: ttbr(&lower), ttbr1: ttbr(&nothing) }))
}

/// All of RAM; text and read-only data cannot be written, but where that is asked for.
fn regions(ranges: &[PhysicalRange], rodata: Rodata) -> impl Iterator<Item = Region> {
    let protected = image::text().start..image::rodata().end;
    let of_protected = if rodata == Rodata::Off { READ_WRITE } else { READ_ONLY };
    split(ranges, protected).map(move |(part, is_protected)| Region {
        physical: PhysAddr::new(part.start)..PhysAddr::new(part.end),
        attributes: if is_protected { of_protected } else { READ_WRITE },
    })
}

/// The parts of RAM before, in and after what is protected, where they meet at all, and whether they are in it.
fn split(ranges: &[PhysicalRange], protected: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> {
    ranges.iter().flat_map(move |range| {
        let (start, end) = (range.start.bits(), range.end.bits());
        let from = protected.start.clamp(start, end);
        let to = protected.end.clamp(start, end);
        let parts = [(start..from, false), (from..to, true), (to..end, false)];
        parts.into_iter().filter(|(part, _)| !part.is_empty())
    })
}

/// The image at its link address, without what early boot alone needs: that becomes free memory.
fn image_changes(rodata: Rodata) -> impl Iterator<Item = Change<El1>> {
    let may_write = |attributes: Stage1Attributes| match rodata {
        Rodata::Off => attributes.difference(Stage1Attributes::READ_ONLY),
        Rodata::On | Rodata::NoAlias => attributes,
    };
    let (text, vectors) = (may_write(EXECUTABLE), image::vectors());
    // With the data of exceptions in it, what can be written is in pages.
    let parts: [(_, _, fn(_, _, _) -> _); 5] = [
        (image::identity_text(), text, map),
        (vectors.clone(), text, map_pages),
        (vectors.end..image::text().end, text, map),
        (image::rodata(), may_write(READ_ONLY), map),
        (image::data(), READ_WRITE, map_pages),
    ];
    let parts = parts.into_iter().filter(|(part, ..)| !part.is_empty());
    parts.map(|(part, attributes, map)| {
        let at = image::high_address(part.start);
        map(part, at, attributes)
    })
}
