//! A read that may fault, to see whether it does; for EL2 before a guest runs.

use core::arch::asm;

/// Reads 8 bytes; `None` where nothing answers.
///
/// # Safety
///
/// If something is at `address`, 8-byte aligned, reading it has no side effect. The monitor's vectors are installed.
pub unsafe fn read(address: u64) -> Option<u64> {
    unsafe extern "C" {
        fn probe_at_el2();
    }
    let (value, is_fault): (u64, u64);
    // SAFETY: it reads `address`, for which the caller vouches. The vectors know that load by its place: where it faults they
    // go on behind it with x1 set, and have used nothing but x0 and x1.
    unsafe {
        asm!(
            "bl {probe}",
            probe = sym probe_at_el2,
            inout("x0") address => value, out("x1") is_fault, out("x30") _,
            options(nostack),
        );
    }
    (is_fault == 0).then_some(value)
}
