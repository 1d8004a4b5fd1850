//! How page tables are edited that CPUs may walk of which nothing is known.

use pagetable::{El1, HardwareUpdates, Scope, TlbFeatures};

/// With no TLBI that a CPU might lack, and with every one repeated, should one need it.
pub(crate) const CAUTIOUS: El1 = El1 {
    scope: Scope::Global,
    tlb: TlbFeatures { range: false, level_hints: false, repeat: true },
    hardware_updates: HardwareUpdates::None,
};
