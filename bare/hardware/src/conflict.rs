//! TLB conflict aborts, which the vectors answer by themselves: how many there were, and when one is too many.

pub(crate) mod record;

use crate::per_cpu;

/// How often one may come again at the same place, if conflicts are to be survived. To forget everything ends it at once, unless
/// something beneath keeps what is to be forgotten.
pub const PATIENCE: u64 = 4096;

/// How many have come to this CPU: on fetches, and on accesses to data.
pub fn counts() -> [u64; 2] {
    per_cpu::this().conflict.counts.get()
}

/// How often the last one of this CPU has come again, nothing else in between.
pub fn repeats() -> u64 {
    per_cpu::this().conflict.repeats.get()
}
