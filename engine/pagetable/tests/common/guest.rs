//! A guest's stage 2 to begin with.

use std::ops::Range;

use super::regimes::Drawn;
use vellum_pagetable::{Change, HardwareUpdates, Stage2, TlbFeatures};
use vellum_vmsa::{Geometry, Granule4K, IntermediateAddr, LeafSize, PhysAddr, Stage2Attributes, Stage2Memory};

pub(crate) const FULL: TlbFeatures = TlbFeatures { range: true, level_hints: true, repeat: false };
pub(crate) const GUEST: Stage2 = Stage2 { vmid: 7, tlb: FULL, hardware_updates: HardwareUpdates::None };

/// Memory of a guest: read, written, executed, write-back, accessed.
pub(crate) fn guest_memory() -> Stage2Attributes {
    let memory = Stage2Attributes::with_memory(Stage2Memory::WriteBack, false).unwrap();
    memory | Stage2Attributes::READ_WRITE | Stage2Attributes::AF | Stage2Attributes::INNER_SHAREABLE
}

pub(crate) fn range(from: u64, bytes: u64) -> Range<IntermediateAddr> {
    IntermediateAddr::new(from)..IntermediateAddr::new(from.wrapping_add(bytes))
}

pub(crate) fn map(from: u64, bytes: u64, to: u64) -> Change<Stage2> {
    let attributes = guest_memory();
    Change::Map { from: range(from, bytes), to: PhysAddr::new(to), attributes, largest: LeafSize::LARGEST }
}

pub(crate) fn write_protect(from: u64, bytes: u64) -> Change<Stage2> {
    Change::Protect { from: range(from, bytes), set: Stage2Attributes::empty(), clear: Stage2Attributes::WRITE }
}

/// 40 bits of intermediate address from two tables at level 1.
pub(crate) fn shape() -> Geometry<Granule4K> {
    Stage2::fixed(40)
}
