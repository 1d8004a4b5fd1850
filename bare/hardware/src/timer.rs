//! Time, from the generic timer's virtual counter.

use core::arch::asm;

use crate::registers::read_register;

/// The counter now, in ticks of [`read_frequency`].
pub fn read_counter() -> u64 {
    let ticks: u64;
    // SAFETY: reading the counter has no effect. The ISB keeps it from being read before what is being timed has begun.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// Ticks per second, as firmware says (CNTFRQ_EL0).
pub fn read_frequency() -> u64 {
    read_register!("cntfrq_el0")
}
