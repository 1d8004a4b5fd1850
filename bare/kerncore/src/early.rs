//! The early allocator: takes memory from the map before the page allocator exists, and hands the rest over to it.
//!
//! It has no records of its own: what it gives out becomes a piece of the map with its purpose, so that the printed map
//! tells where everything went, and nothing is given out twice.

use core::fmt;

use vmsa::{PageSize, PhysAddr};

use crate::buddy::{AddError, Buddy};
use crate::memory_map::{Kind, MemoryMap, Purpose};
use crate::range::{Bytes, PHYSICAL_END, PhysicalRange};

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Rounded up to whole pages.
    pub size_bytes: u64,
    /// A power of two; never less than a page is meant.
    pub alignment_bytes: u64,
    /// All of it lies below this address.
    pub below: PhysAddr,
    /// From which end to look for room.
    pub from: End,
    /// What it is for.
    pub purpose: Purpose,
}

/// From which end to look for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The lowest address that will do.
    Bottom,
    /// The highest address that will do: keeps low memory whole for who needs it.
    Top,
}

impl Request {
    /// One page of any address, from the top.
    pub const fn page(page_size: PageSize, purpose: Purpose) -> Self {
        let size_bytes = page_size.size_bytes();
        Self { size_bytes, alignment_bytes: size_bytes, below: PHYSICAL_END, from: End::Top, purpose }
    }
}

/// Nothing was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyError {
    /// No free range is large enough at this alignment and below this limit.
    NoMemory(Request),
    /// A size of zero, or an alignment that is no power of two.
    BadRequest(Request),
    /// The memory map has no room to record it.
    MapFull(Request),
}

impl fmt::Display for EarlyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (why, request) = match self {
            Self::NoMemory(request) => ("no room is free", request),
            Self::BadRequest(request) => ("no such size or alignment can be", request),
            Self::MapFull(request) => ("the memory map is full", request),
        };
        let Request { size_bytes, alignment_bytes, below, purpose, .. } = request;
        let (size, alignment) = (Bytes(*size_bytes), Bytes(*alignment_bytes));
        write!(f, "{why} for {purpose}: wanted {size} aligned to {alignment} below {below}")
    }
}

/// Gives out memory of a map, whole pages at a time. While it lives nobody else changes the map.
pub struct EarlyAllocator<'m> {
    map: &'m mut MemoryMap,
    page_size: PageSize,
}

impl<'m> EarlyAllocator<'m> {
    /// Takes from what is free in `map`. It may be made anew, even with another page size: all it knows is in the map.
    pub fn new(map: &'m mut MemoryMap, page_size: PageSize) -> Self {
        Self { map, page_size }
    }

    /// Gives out what is wanted; its bytes are whatever they were.
    pub fn allocate(&mut self, request: &Request) -> Result<PhysicalRange, EarlyError> {
        let page_bytes = self.page_size.size_bytes();
        let size_bytes = request.size_bytes.checked_next_multiple_of(page_bytes).filter(|&size_bytes| size_bytes > 0);
        let (Some(size_bytes), true) = (size_bytes, request.alignment_bytes.is_power_of_two()) else {
            return Err(EarlyError::BadRequest(*request));
        };
        let fit = |free: PhysicalRange| self.fit(free, size_bytes, request);
        let found = match request.from {
            End::Bottom => self.map.free(self.page_size).find_map(fit),
            End::Top => self.map.free(self.page_size).rev().find_map(fit),
        };
        let range = found.ok_or(EarlyError::NoMemory(*request))?;
        self.map.mark(range, Kind::Early(request.purpose)).map_err(|_| EarlyError::MapFull(*request))?;
        Ok(range)
    }

    /// Where in `free` the request goes.
    fn fit(&self, free: PhysicalRange, size_bytes: u64, request: &Request) -> Option<PhysicalRange> {
        let alignment = request.alignment_bytes.max(self.page_size.size_bytes());
        let room = free.intersection(&PhysicalRange::new(PhysAddr::new(0), request.below));
        let start = match request.from {
            End::Bottom => room.start.align_up(alignment)?,
            End::Top => PhysAddr::new(room.end.bits().checked_sub(size_bytes)?).align_down(alignment),
        };
        let range = PhysicalRange::from_size(start, size_bytes);
        (range.size_bytes() == size_bytes && room.covers(&range)).then_some(range)
    }

    /// The map as it is now.
    pub fn map(&self) -> &MemoryMap {
        self.map
    }

    /// How many bytes were given out for `purpose`.
    pub fn given_bytes(&self, purpose: Purpose) -> u64 {
        self.map.bytes(|kind| matches!(kind, Kind::Early(other) if other == purpose))
    }

    /// How many bytes were given out for all purposes.
    pub fn all_given_bytes(&self) -> u64 {
        self.map.bytes(|kind| matches!(kind, Kind::Early(_)))
    }

    /// Ends early allocation: the page allocator gets every whole page that is still free; returns how many bytes.
    pub fn hand_over(self, buddy: &mut Buddy<'_>) -> Result<u64, AddError> {
        let mut bytes = 0;
        for range in self.map.free(self.page_size) {
            buddy.add(range)?;
            bytes += range.size_bytes();
        }
        Ok(bytes)
    }
}
