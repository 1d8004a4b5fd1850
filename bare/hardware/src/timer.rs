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

/// Has this CPU's virtual timer interrupt once the counter has come to `at`.
pub fn arm(at: u64) {
    // SAFETY: the timer does nothing but interrupt, which whoever enables its interrupt expects. ENABLE is bit 0 of CNTV_CTL_EL0.
    unsafe {
        asm!("msr cntv_cval_el0, {}", "msr cntv_ctl_el0, {}", in(reg) at, in(reg) 1u64, options(nostack, preserves_flags))
    };
}

/// Has it not interrupt.
pub fn disarm() {
    // SAFETY: as above. The ISB has the interrupt gone before it could be taken again.
    unsafe { asm!("msr cntv_ctl_el0, xzr", "isb", options(nostack, preserves_flags)) };
}
