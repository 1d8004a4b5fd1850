//! What several tests and the fuzzer share.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod fuzz;
pub(crate) mod hostile;
pub(crate) mod tree;

use kerncore::devicetree::{self, MachineDescription};
use kerncore::finding::Findings;
use kerncore::range::PhysicalRange;
use vmsa::PhysAddr;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const TIB: u64 = 1 << 40;

/// `size_bytes` bytes from `start`.
pub(crate) fn range(start: u64, size_bytes: u64) -> PhysicalRange {
    PhysicalRange::from_size(PhysAddr::new(start), size_bytes)
}

/// Reads a blob and gives both answers.
pub(crate) fn read(blob: &[u8]) -> (MachineDescription<'_>, Findings<'_>) {
    let (mut machine, mut findings) = (MachineDescription::new(), Findings::new());
    devicetree::read(blob, &mut machine, &mut findings);
    (machine, findings)
}

/// The findings about each blob, under its label.
pub(crate) fn lines<const N: usize>(blobs: [(&str, Vec<u8>); N]) -> String {
    blobs.map(|(label, blob)| format!("{label}:\n{}", read(&blob).1)).concat()
}
