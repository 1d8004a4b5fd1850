//! Instruction counts, from the event counter that the entry code starts.

use core::arch::asm;

use crate::registers::read_register;

/// INST_RETIRED.
const INSTRUCTIONS: u32 = 0x08;

/// Whether this CPU has FEAT_PMUv3.
pub(crate) fn has_counters() -> bool {
    !matches!(read_register!("id_aa64dfr0_el1") >> 8 & 0xf, 0 | 0xf)
}

/// Whether event counter 0 of this CPU counts instructions.
pub fn counts_instructions() -> bool {
    if !has_counters() || read_register!("pmcr_el0") >> 11 & 0x1f == 0 {
        return false;
    }
    read_register!("pmceid0_el0") & 1 << INSTRUCTIONS != 0
}

/// Instructions at EL1 since entry on the boot CPU, modulo 2^32. Only where [`counts_instructions`].
pub fn read_instructions() -> u32 {
    let count: u64;
    // SAFETY: reading the counter has no effect. The ISB counts what comes before it and nothing after.
    unsafe { asm!("isb", "mrs {}, pmevcntr0_el0", out(reg) count, options(nostack, preserves_flags)) };
    count as u32
}
