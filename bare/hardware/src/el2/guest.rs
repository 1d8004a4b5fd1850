//! EL1 as the guest finds it: its traps, its identity, its entry, and the exceptions that are put into it.

use core::arch::asm;

use super::exit::{Exit, Frame};
use super::stack;
use crate::registers::read_register;

/// Writes a system register, by the assembler's name.
macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: who writes tells what the value changes: see each use.
        unsafe { asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
    }};
}

/// Fields of HCR_EL2 (D19.2.48).
mod hcr {
    /// VM: stage 2 is on.
    pub(super) const STAGE2: u64 = 1 << 0;
    /// SWIO: an invalidation by set and way cleans too, lest the guest drops lines of others.
    pub(super) const CLEAN_BY_SET_WAY: u64 = 1 << 1;
    /// TID1 and TID3: reads of REVIDR_EL1, AIDR_EL1 and of the ID registers trap.
    pub(super) const TRAP_ID: u64 = 1 << 16 | 1 << 18;
    /// TSC: SMC traps.
    pub(super) const TRAP_SMC: u64 = 1 << 19;
    /// TIDCP: IMPLEMENTATION DEFINED registers trap.
    pub(super) const TRAP_IMPLEMENTATION: u64 = 1 << 20;
    /// TTLB: TLBIs of EL1 trap.
    pub(super) const TRAP_TLBI: u64 = 1 << 25;
    /// RW: EL1 is AArch64.
    pub(super) const EL1_IS_64: u64 = 1 << 31;
    /// APK and API: pointer authentication does not trap.
    pub(super) const POINTER_AUTHENTICATION: u64 = 1 << 40 | 1 << 41;
    /// EnSCXT: SCXTNUM_ELx do not trap.
    pub(super) const SOFTWARE_CONTEXT: u64 = 1 << 53;
    /// ATA: EL1 may use allocation tags.
    pub(super) const TAGS: u64 = 1 << 56;
}

/// What a CPU's guest is told and translated by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// What MIDR_EL1 reads as.
    pub midr: u64,
    /// VTCR_EL2.
    pub vtcr: u64,
    /// VTTBR_EL2.
    pub vttbr: u64,
    /// Whether TLBIs come to the monitor.
    pub traps_tlbi: bool,
}

/// Sets this CPU's EL2 so that EL1 runs as `settings` say, behind what `prepare_el1` has written: calls to firmware and
/// reads of ID registers come to the monitor, everything else the CPU has is the guest's.
///
/// # Safety
///
/// The stage 2 of these registers leads to no memory of the monitor.
pub unsafe fn configure(settings: Settings) {
    let pfr0 = read_register!("id_aa64pfr0_el1");
    let pfr1 = read_register!("id_aa64pfr1_el1");
    let has = |register: u64, field: u32, least: u64| register >> field & 15 >= least;
    let (has_sve, has_sme, has_sme2) = (has(pfr0, 32, 1), has(pfr1, 24, 1), has(pfr1, 24, 2));
    let has_tags = has(pfr1, 8, 2);
    // RES1 bits, of which TZ and TSM stay set where they are not RES1 but would trap what is not there.
    let traps = 0x33ff & !(u64::from(has_sve) << 8) & !(u64::from(has_sme) << 12);
    write_register!("cptr_el2", traps);
    write_register!("vpidr_el2", settings.midr);
    write_register!("vtcr_el2", settings.vtcr);
    write_register!("vttbr_el2", settings.vttbr);
    // TSM, as `prepare_el1` left it, traps SMCR_EL2 at EL2 too; and a walk by stage 2 must not come
    // before the registers that it goes by.
    // SAFETY: an ISB only waits.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
    // The longest vectors there are: LEN of all ones; of SME also FA64, and with SME2 EZT0.
    if has_sve {
        write_register!("S3_4_C1_C2_0", 0xf); // ZCR_EL2
    }
    if has_sme {
        write_register!("S3_4_C1_C2_6", 1 << 31 | u64::from(has_sme2) << 30 | 0xf); // SMCR_EL2
    }
    let tags = if has_tags { hcr::TAGS } else { 0 };
    let tlbi = if settings.traps_tlbi { hcr::TRAP_TLBI } else { 0 };
    let hcr = hcr::STAGE2
        | hcr::CLEAN_BY_SET_WAY
        | hcr::TRAP_ID
        | hcr::TRAP_SMC
        | hcr::TRAP_IMPLEMENTATION
        | hcr::EL1_IS_64
        | hcr::POINTER_AUTHENTICATION
        | hcr::SOFTWARE_CONTEXT
        | tags
        | tlbi;
    write_register!("hcr_el2", hcr);
    // What the TLBs hold of the guest is from before reset, or from a run of this CPU that PSCI has ended. The first ISB
    // makes the invalidation use the new VMID, the DSB waits for it, and the second ISB drops what was fetched by the old
    // translation.
    // SAFETY: forgetting translations is always allowed.
    unsafe { asm!("isb", "tlbi vmalls12e1", "dsb nsh", "isb", options(nostack, preserves_flags)) };
}

/// Enters the guest at EL1 with its MMU off and everything masked, `argument` in x0. The rest of what ran on this CPU's
/// stack is gone.
///
/// # Safety
///
/// This CPU is [`configure`]d, and nothing on its stack is needed again.
pub unsafe fn enter(entry: u64, argument: u64) -> ! {
    unsafe extern "C" {
        fn enter_guest(entry: u64, argument: u64, stack: u64) -> !;
    }
    // SAFETY: the caller's promise; the stack is this CPU's.
    unsafe { enter_guest(entry, argument, stack::range(super::exit::cpu_index()).end) }
}

/// An exception that the guest is to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Injected {
    /// An instruction that is not one.
    Undefined,
    /// A data or instruction abort: bits 24:0 of its syndrome, and the address in FAR_EL1.
    Abort {
        /// Whether an instruction fetch is refused, not an access to data.
        is_fetch: bool,
        /// ISS.
        specific: u32,
        /// FAR_EL1.
        address: u64,
    },
}

/// EC of a 4-byte instruction's syndrome with IL set.
const fn syndrome(class: u64, specific: u32) -> u64 {
    class << 26 | 1 << 25 | specific as u64
}

/// Has the guest take a synchronous exception to EL1 instead of the instruction it was at, as the CPU would (AArch64
/// TakeException, D1.3): what it was doing goes into the registers of EL1, and it goes on at its own vectors.
pub fn inject(exit: &mut Exit, injected: Injected) {
    let frame: &mut Frame = exit.frame;
    // M[4]: EL0 ran AArch32; M[3:2]: the exception level; M[0]: which stack pointer.
    let (is_32_bit, level, has_own_stack) = (frame.status >> 4 & 1 == 1, frame.status >> 2 & 3, frame.status & 1 == 1);
    let is_from_el1 = !is_32_bit && level == 1;
    let syndrome = match injected {
        Injected::Undefined => syndrome(0, 0),
        Injected::Abort { is_fetch, specific, .. } => {
            let class = if is_fetch { 0x20 } else { 0x24 };
            syndrome(class | u64::from(is_from_el1), specific)
        }
    };
    write_register!("esr_el1", syndrome);
    if let Injected::Abort { address, .. } = injected {
        write_register!("far_el1", address);
    }
    write_register!("elr_el1", frame.return_address);
    write_register!("spsr_el1", frame.status);
    let vector = match (is_from_el1, is_32_bit, has_own_stack) {
        (true, _, false) => 0x000,
        (true, _, true) => 0x200,
        (false, false, _) => 0x400,
        (false, true, _) => 0x600,
    };
    frame.return_address = read_register!("vbar_el1") + vector;
    frame.status = status_on_exception(frame.status, is_32_bit);
}

/// PSTATE as an exception to EL1 leaves it: on SP_EL1, DAIF masked, NZCV and what the CPU says of PAN, UAO and the like as
/// SCTLR_EL1 asks (D1.3.4).
fn status_on_exception(before: u64, is_32_bit: bool) -> u64 {
    const KEPT: u64 = 0b1111 << 28 | DIT;
    const DIT: u64 = 1 << 24;
    const PAN: u64 = 1 << 22;
    const SSBS: u64 = 1 << 12;
    const TCO: u64 = 1 << 25;
    let sctlr = read_register!("sctlr_el1");
    let mmfr1 = read_register!("id_aa64mmfr1_el1");
    let pfr1 = read_register!("id_aa64pfr1_el1");
    let has_pan = mmfr1 >> 20 & 15 != 0;
    // In an AArch32 SPSR bit 24 is J or DIT's neighbour: nothing but the flags has the same place.
    let mut status = 0x3c5 | before & if is_32_bit { 0b1111 << 28 } else { KEPT };
    // SPAN clear: every exception sets PAN.
    if has_pan && (sctlr >> 23 & 1 == 0 || before & PAN != 0) {
        status |= PAN;
    }
    // DSSBS.
    if pfr1 >> 4 & 15 != 0 && sctlr >> 44 & 1 == 1 {
        status |= SSBS;
    }
    if pfr1 >> 8 & 15 >= 2 {
        status |= TCO;
    }
    status
}

/// SCTLR_EL1, the guest's.
pub fn read_control() -> u64 {
    read_register!("sctlr_el1")
}

/// SP_EL0, the guest's.
pub fn read_user_stack() -> u64 {
    read_register!("sp_el0")
}

/// SP_EL1, the guest's.
pub fn read_stack() -> u64 {
    read_register!("sp_el1")
}

/// Where the guest's stage 1 leads a read by EL1 of `address` (AT S1E1R): an intermediate physical address, or `None` where
/// it faults.
pub fn translate(address: u64) -> Option<u64> {
    // The guest's own result of an AT instruction is not to be lost.
    let before = read_register!("par_el1");
    let result: u64;
    // SAFETY: AT changes PAR_EL1 alone, which is put back; a fault of stage 1 or 2 is told there. PAR_EL1 holds the result
    // only after a context synchronization event.
    unsafe {
        asm!(
            "at s1e1r, {address}", "isb", "mrs {result}, par_el1",
            address = in(reg) address, result = out(reg) result, options(nostack, preserves_flags),
        );
    }
    write_register!("par_el1", before);
    (result & 1 == 0).then_some(result & 0x000f_ffff_ffff_f000 | address & 0xfff)
}
