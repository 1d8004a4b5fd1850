//! The registers that make up a CPU's translation, and the assembly that changes them.

use core::arch::asm;

use vmsa::{PhysAddr, VirtAddr};

use crate::maintenance::{PATIENCE, forget_everything};
use crate::registers;

/// SCTLR_EL1 with the MMU on: the RES1 bits of Armv8.0, and M, C, I, SA (the stack pointer must be aligned).
pub const SCTLR_MMU_ON: u64 = 0x30d0_0800 | 1 << 12 | 1 << 3 | 1 << 2 | 1;

/// What `switch_translation` loads.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// MAIR_EL1.
    pub mair: u64,
    /// TCR_EL1.
    pub tcr: u64,
    /// TTBR0_EL1.
    pub ttbr0: u64,
    /// TTBR1_EL1.
    pub ttbr1: u64,
    /// SCTLR_EL1.
    pub sctlr: u64,
}

impl Translation {
    /// All zeros.
    pub const NONE: Self = Self { mair: 0, tcr: 0, ttbr0: 0, ttbr1: 0, sctlr: 0 };

    /// What this CPU has.
    pub fn read() -> Self {
        Self {
            mair: registers::read_mair(),
            tcr: registers::read_tcr(),
            ttbr0: registers::read_ttbr0(),
            ttbr1: registers::read_ttbr1(),
            sctlr: registers::read_sctlr(),
        }
    }
}

/// Has this CPU walk the lower half from another root: a value of TTBR0_EL1 with an ASID. Gives the one it had.
///
/// # Safety
///
/// The tables are complete, and of the granule and layout that TCR_EL1 says; what this CPU's TLB holds of that ASID is of them alone.
/// Nothing that runs, and no reference that is used meanwhile, is in the lower half.
pub unsafe fn exchange_lower(ttbr0: u64) -> u64 {
    let before = registers::read_ttbr0();
    // SAFETY: the caller's promise. No access by either map may cross the two instructions: no `nomem`.
    unsafe {
        asm!(
            "msr ttbr0_el1, {}",
            "isb", // the next access is translated by the new root
            in(reg) ttbr0,
            options(nostack, preserves_flags),
        );
    }
    before
}

/// Asks the MMU with an AT instruction.
macro_rules! translate {
    ($instruction:literal, $address:expr) => {{
        let ask = || {
        let par: u64;
        // SAFETY: AT changes PAR_EL1 alone, which nothing else uses; an interrupt between the two would have to use it
        // too.
        unsafe {
            asm!(
                concat!("at ", $instruction, ", {address}"),
                "isb", // PAR_EL1 holds the result only after a context synchronization event
                "mrs {par}, par_el1",
                address = in(reg) $address.bits(),
                par = out(reg) par,
                options(nostack, preserves_flags),
            );
        }
        par
        };
        let par = ask_again($address, ask);
        match par & 1 {
            0 => Ok(PhysAddr::new(par & 0x000f_ffff_ffff_f000 | $address.bits() & 0xfff)),
            _ => Err(par),
        }
    }};
}

/// PAR_EL1.F, and FST of a TLB conflict abort (0b110000).
const PAR_FAULT: u64 = 0x7f;
const PAR_CONFLICT: u64 = 0x30 << 1 | 1;

/// What `ask` reads from PAR_EL1. A TLB conflict says nothing of the address: this CPU forgets everything, and asks again, as often as
/// the access itself would be made again.
#[inline(always)]
fn ask_again(address: VirtAddr, ask: impl Fn() -> u64) -> u64 {
    for _ in 0..=PATIENCE {
        let par = ask();
        if par & PAR_FAULT != PAR_CONFLICT {
            return par;
        }
        forget_everything();
    }
    conflict_without_end(address)
}

/// It does not end, so that nothing can be said of the address: to say that nothing is there would be wrong. `checks/code` knows it by
/// its name.
#[unsafe(no_mangle)]
#[cold]
#[inline(never)]
fn conflict_without_end(address: VirtAddr) -> ! {
    panic!("AT of {address}: a TLB conflict, and again {PATIENCE} times, though each time this CPU forgot everything")
}

/// Where the MMU of this CPU leads a read of `address` by EL1 (AT S1E1R): a physical address, or the value of PAR_EL1
/// where it faults. `checks/code` knows both functions by their names.
#[unsafe(no_mangle)]
pub fn read_translation(address: VirtAddr) -> Result<PhysAddr, u64> {
    translate!("s1e1r", address)
}

/// The same for a write (AT S1E1W), which is not made.
#[unsafe(no_mangle)]
pub fn read_translation_to_write(address: VirtAddr) -> Result<PhysAddr, u64> {
    translate!("s1e1w", address)
}
