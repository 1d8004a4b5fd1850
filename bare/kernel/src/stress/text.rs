//! A function that is put into memory and called.

use hardware::probe::RET;
use vmsa::VirtAddr;

/// One that gives a CPU's number.
pub(super) const fn function(cpu: usize) -> [u32; 2] {
    /// MOV W0, #0.
    const MOV: u32 = 0x5280_0000;
    [MOV | (cpu as u32) << 5, RET]
}

/// Calls it.
///
/// # Safety
///
/// [`function`] is there, and this CPU can execute it.
pub(super) unsafe fn call(at: VirtAddr) -> usize {
    // SAFETY: text of a function that takes nothing and gives a number.
    unsafe { core::mem::transmute::<u64, extern "C" fn() -> u32>(at.bits())() as usize }
}
