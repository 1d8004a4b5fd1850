//! How page tables are edited that CPUs may walk of which nothing is known.

use pagetable::{El1, HardwareUpdates, Scope};

/// See [`common::ANY_CPU`].
pub(crate) const CAUTIOUS: El1 =
    El1 { scope: Scope::Global, tlb: common::ANY_CPU, hardware_updates: HardwareUpdates::None };
