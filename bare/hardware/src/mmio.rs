//! Device registers: each access is one load or store of a general register without write-back. A host that emulates a device for a
//! realm is told nothing else, and a compiler is free to choose what it is not told (ESR_ELx.ISS.ISV).

use core::arch::asm;

/// Reads a register of 32 bits.
///
/// # Safety
///
/// `address` is mapped as Device memory, or the MMU is off, and reading there does no harm.
pub unsafe fn read(address: usize) -> u32 {
    let value: u32;
    // SAFETY: the caller's promise.
    unsafe { asm!("ldr {:w}, [{}]", out(reg) value, in(reg) address, options(nostack, preserves_flags)) };
    value
}

/// Writes a register of 32 bits.
///
/// # Safety
///
/// `address` is mapped as Device memory, or the MMU is off, and nobody minds the write.
pub unsafe fn write(address: usize, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("str {:w}, [{}]", in(reg) value, in(reg) address, options(nostack, preserves_flags)) };
}
