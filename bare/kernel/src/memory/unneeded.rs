//! What early boot alone needs, or pages of another size: most of it lies at the end of the image, and is free memory once the high half is
//! reached.
//!
//! ```text
//! image    text │ read-only data, relocations │ data, bss │ guard │ boot stacks │ first tables │
//! high half                                               │============= free memory ===========│
//! ```

use hardware::image;
use kerncore::memory_map::{Kind, MemoryMap};
use kerncore::range::PhysicalRange;
use vmsa::{PageSize, PhysAddr};

use crate::facts::{facts, page_size};
use crate::handover;
use crate::memory::tables;

/// Bytes of what boot alone needs.
pub(crate) struct Unneeded {
    pub(crate) freed: u64,
    pub(crate) kept: u64,
}

/// What is free once the high half is reached: no CPU walks these tables, and none has its stack there.
pub(crate) fn early() -> PhysicalRange {
    let early = image::early();
    let physical = |address: u64| PhysAddr::new(address - image::whole().start + facts().load_address.bits());
    PhysicalRange::new(physical(early.start), physical(early.end))
}

/// Makes it free memory.
pub(crate) fn free(map: &mut MemoryMap) {
    // A map that is too full for one more range keeps it as a part of the image.
    map.mark(early(), Kind::Free).ok();
}

/// What early boot alone needs. Relocations are kept, amid read-only data, and what is handed over to the high half, amid data.
pub(crate) fn of_boot(map: &MemoryMap) -> Unneeded {
    let of = |range: core::ops::Range<u64>| range.end - range.start;
    let kept = of(image::relocations()) + handover::BYTES as u64;
    // The whole of it is of one kind.
    match map.kind_at(early().start) {
        Some(Kind::Image) => Unneeded { freed: 0, kept: kept + of(image::early()) },
        _ => Unneeded { freed: of(image::early()), kept },
    }
}

/// The page sizes that were not chosen, and the bytes of data that each alone needs: they are kept, amid data. They have no tables.
pub(crate) fn of_page_sizes() -> impl Iterator<Item = (PageSize, u64)> {
    PageSize::ALL.into_iter().filter(|size| *size != page_size()).map(|size| (size, tables::data_bytes(size)))
}
