//! Which memory there is, who had it at the end of boot, and what has gone since.

use kerncore::list::List;
use kerncore::memory_map::{Kind, MAX_RANGES, MemoryMap};
use kerncore::range::PhysicalRange;
use vmsa::PhysAddr;

use crate::facts::page_size;
use crate::locks::{Lock, order};

static MAP: Lock<MemoryMap> = Lock::new(order::MAP, MemoryMap::new());

/// Ranges of a memory map.
pub(crate) type Ranges = List<PhysicalRange, MAX_RANGES>;

/// Boot is over, and this is who has which memory.
pub(crate) fn start(map: &MemoryMap) {
    MAP.with(|own| own.clone_from(map));
}

/// The map as it is now.
pub(crate) fn map() -> MemoryMap {
    MAP.with(|map| map.clone())
}

/// The ranges that the linear map covers.
pub(crate) fn mapped() -> Ranges {
    MAP.with(|map| list(map.mapped(page_size())))
}

/// How many bytes those have.
pub(crate) fn mapped_bytes() -> u64 {
    MAP.with(|map| map.mapped(page_size()).map(|range| range.size_bytes()).sum())
}

/// The ranges that it may ever cover.
pub(crate) fn mappable() -> Ranges {
    MAP.with(|map| list(map.mappable(page_size())))
}

fn list(ranges: impl Iterator<Item = PhysicalRange>) -> Ranges {
    let mut list = Ranges::new(PhysicalRange::EMPTY);
    ranges.for_each(|range| list.push(range).expect("the list is as long as the map"));
    list
}

/// Who had a page at the end of boot, if it is memory.
pub(crate) fn user(page: PhysAddr) -> Option<Kind> {
    MAP.with(|map| map.kind_at(page))
}

/// Whether all of a range is of a kind that `is_meant`.
pub(crate) fn is_all(range: PhysicalRange, is_meant: fn(Kind) -> bool) -> bool {
    MAP.with(|map| map.is_all(range, is_meant))
}

/// Whether a range can be of another kind.
pub(crate) fn has_room() -> bool {
    MAP.with(|map| map.has_room())
}

/// A range for which [`is_all`] and [`has_room`] held is of another kind now.
pub(crate) fn mark(range: PhysicalRange, kind: Kind) {
    MAP.with(|map| map.mark(range, kind)).expect("the map has room, as was asked");
}
