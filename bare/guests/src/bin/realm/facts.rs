//! What the command line and the start have found, for every check.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// CPUs that are supported.
pub(crate) const CPUS: usize = hardware::guest::CPUS;

/// What the command line says.
pub(crate) static STEP: AtomicU64 = AtomicU64::new(0);
pub(crate) static SEED: AtomicU64 = AtomicU64::new(1);
pub(crate) static ROUNDS: AtomicU64 = AtomicU64::new(60);
/// The number of CPUs, once it is known.
pub(crate) static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Where unprotected addresses begin.
pub(crate) static UNPROTECTED: AtomicU64 = AtomicU64::new(0);

/// Where unprotected addresses begin.
pub(crate) fn unprotected() -> u64 {
    UNPROTECTED.load(Ordering::Relaxed)
}
