//! The attributes that the kernel's mappings have, by what they are for. None is both writable and executable.

use core::ops::Range;

use pagetable::{Change, El1, HardwareUpdates, Scope};
use vmsa::{LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

/// Of tables that CPUs may walk of which nothing is known: see [`common::ANY_CPU`].
pub(crate) const CAUTIOUS: El1 =
    El1 { scope: Scope::Global, tlb: common::ANY_CPU, hardware_updates: HardwareUpdates::None };

/// AttrIndx of Normal and of Device-nGnRE memory in [`vmsa::registers::MemoryTypes::WITHOUT_TAGS`].
pub(super) const NORMAL_INDEX: u8 = 0;
const DEVICE_INDEX: u8 = 4;

/// Cached memory that all CPUs share. The access flag is set: no CPU's hardware is asked to, and no fault is wanted.
const NORMAL: Stage1Attributes =
    Stage1Attributes::memory(NORMAL_INDEX).union(Stage1Attributes::INNER_SHAREABLE).union(Stage1Attributes::AF);

/// Kernel code.
pub(crate) const EXECUTABLE: Stage1Attributes = NORMAL.union(Stage1Attributes::READ_ONLY).union(Stage1Attributes::UXN);
/// Constants.
pub(crate) const READ_ONLY: Stage1Attributes =
    NORMAL.union(Stage1Attributes::READ_ONLY).union(Stage1Attributes::NO_EXECUTE);
/// Data.
pub(crate) const READ_WRITE: Stage1Attributes = NORMAL.union(Stage1Attributes::NO_EXECUTE);
/// Device registers.
pub(crate) const DEVICE: Stage1Attributes = Stage1Attributes::memory(DEVICE_INDEX)
    .union(Stage1Attributes::INNER_SHAREABLE)
    .union(Stage1Attributes::AF)
    .union(Stage1Attributes::NO_EXECUTE);

/// The change that maps physical memory at a virtual address with the largest leaves there are.
pub(crate) fn map(physical: Range<u64>, at: u64, attributes: Stage1Attributes) -> Change<El1> {
    map_with(physical, at, attributes, LeafSize::LARGEST)
}

/// The same by pages that are no part of contiguous groups: for what every exception needs, which no TLB conflict may meet.
pub(crate) fn map_pages(physical: Range<u64>, at: u64, attributes: Stage1Attributes) -> Change<El1> {
    map_with(physical, at, attributes, LeafSize::PAGE)
}

fn map_with(physical: Range<u64>, at: u64, attributes: Stage1Attributes, largest: LeafSize) -> Change<El1> {
    let bytes = physical.end - physical.start;
    Change::Map {
        from: VirtAddr::new(at)..VirtAddr::new(at.wrapping_add(bytes)),
        to: PhysAddr::new(physical.start),
        attributes,
        largest,
    }
}
