//! Allocations that fail because a program has asked for that: the n-th of a call, be it of the heap or of pages. Every failure that lack
//! of memory can cause is so caused once, in a machine that has memory to look at what came of it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hardware::per_cpu;

/// Allocations up to the one that fails, of the thread that runs on each CPU; 0 for none.
static LEFT: [AtomicU32; per_cpu::MAX_CPUS] = [const { AtomicU32::new(0) }; per_cpu::MAX_CPUS];

/// A program has asked once: before that, an allocation looks at nothing else.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Has the allocation of this number fail that is made next on this CPU; what was left is given. A thread that leaves its CPU takes that
/// along.
pub(crate) fn exchange(left: u32) -> u32 {
    let place = &LEFT[per_cpu::index()];
    let before = place.load(Ordering::Relaxed);
    place.store(left, Ordering::Relaxed);
    if left != 0 {
        IS_ASKED.store(true, Ordering::Relaxed);
    }
    before
}

/// An allocation is made. Whether it fails.
#[inline(always)]
pub(crate) fn fails() -> bool {
    IS_ASKED.load(Ordering::Relaxed) && is_the_last()
}

#[cold]
#[inline(never)]
fn is_the_last() -> bool {
    let place = &LEFT[per_cpu::index()];
    let left = place.load(Ordering::Relaxed);
    if left == 0 {
        return false;
    }
    place.store(left - 1, Ordering::Relaxed);
    left == 1
}
