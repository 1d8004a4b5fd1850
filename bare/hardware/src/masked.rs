//! The longest stretch in which the boot CPU has its interrupts masked, counted in instructions: every spin lock is held within one.
//!
//! ```text
//! mask, an interrupt's entry ──▶ begin ──▶ … ──▶ restore, WFI ──▶ end: longer than all before? then it is kept, with its place
//! ```
//! A thread is masked from before EL0 until it is back: its stretch goes on, and EL0's instructions are not counted.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::{per_cpu, pmu};

static IS_ON: AtomicBool = AtomicBool::new(false);
/// A stretch has begun.
static IS_MASKED: AtomicBool = AtomicBool::new(false);
/// The counter when it began.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static LONGEST: AtomicU32 = AtomicU32::new(0);
/// The address behind what ended the longest.
static PLACE: AtomicU64 = AtomicU64::new(0);

/// Measures from now on, where the CPU counts instructions. Whether it does.
pub fn start() -> bool {
    let counts = pmu::counts_instructions();
    IS_ON.store(counts, Ordering::Relaxed);
    counts
}

/// Measures no longer. The instructions of the longest stretch, and the address behind what ended it.
pub fn stop() -> (u32, u64) {
    IS_ON.store(false, Ordering::Relaxed);
    (LONGEST.load(Ordering::Relaxed), PLACE.load(Ordering::Relaxed))
}

/// Whether stretches are measured.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Interrupts are masked from here on, and were not before.
#[inline(always)]
pub(crate) fn begin() {
    if is_on() {
        note_begin();
    }
}

/// Interrupts are open from here on, or the CPU waits for one.
#[inline(always)]
pub(crate) fn end() {
    if is_on() {
        note_end();
    }
}

#[cold]
#[inline(never)]
pub(crate) fn note_begin() {
    if per_cpu::index() == 0 {
        IS_MASKED.store(true, Ordering::Relaxed);
        BEGUN.store(pmu::read_instructions(), Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
pub(crate) fn note_end() {
    let place: u64;
    // SAFETY: it reads the return address, before anything here calls.
    unsafe { asm!("mov {}, x30", out(reg) place, options(nomem, nostack, preserves_flags)) };
    if per_cpu::index() != 0 || !IS_MASKED.swap(false, Ordering::Relaxed) {
        return;
    }
    let count = pmu::read_instructions().wrapping_sub(BEGUN.load(Ordering::Relaxed));
    if count > LONGEST.load(Ordering::Relaxed) {
        LONGEST.store(count, Ordering::Relaxed);
        PLACE.store(place, Ordering::Relaxed);
    }
}
