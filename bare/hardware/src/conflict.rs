//! TLB conflict aborts, which the vectors answer by themselves: how many there were, and when one is too many.

pub(crate) mod record;

use core::sync::atomic::{AtomicU64, Ordering};

pub use crate::maintenance::PATIENCE;
use crate::per_cpu;

/// How many have come to this CPU: on fetches, and on accesses to data.
pub fn counts() -> [u64; 2] {
    per_cpu::this().conflict.counts.get()
}

/// How often leaves changed their size on any CPU, or were about to. It lies among what is mapped by pages, for the handler reads it.
#[unsafe(export_name = "resizes")]
static RESIZES: AtomicU64 = AtomicU64::new(0);

/// Leaves are about to change their size, or have, and are not forgotten yet: what conflicts from here on may be of these.
pub fn expect() {
    RESIZES.fetch_add(1, Ordering::Relaxed);
}

/// How often the last one of this CPU has come again, no other and no resize in between.
pub fn repeats() -> u64 {
    per_cpu::this().conflict.repeats.get()
}
