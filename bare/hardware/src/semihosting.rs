//! Leaving an emulator with an exit status.

use core::arch::asm;

/// SYS_EXIT_EXTENDED.
const EXIT_EXTENDED: u64 = 0x20;
/// ADP_Stopped_ApplicationExit.
const APPLICATION_EXIT: u64 = 0x2_0026;

/// Ends the emulator with `status`. Without semihosting the HLT is undefined.
pub fn exit(status: u32) {
    let block = [APPLICATION_EXIT, status.into()];
    // SAFETY: the block outlives the instruction; the emulator reads it and ends.
    unsafe {
        asm!(
            "hlt #0xf000",
            inout("x0") EXIT_EXTENDED => _,
            in("x1") block.as_ptr(),
            options(nostack),
        );
    }
}
