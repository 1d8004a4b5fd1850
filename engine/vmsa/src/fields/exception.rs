// data: the fields of registers that describe an exception, from the manual's register descriptions (D23.2).
//! FAR, HPFAR_EL2 and SPSR. ESR_ELx is [`crate::Syndrome`].

use super::{Register, flag, named, number};

const MODES: &[(u64, &str)] = &[
    (0b0_0000, "EL0"),
    (0b0_0100, "EL1 with SP_EL0"),
    (0b0_0101, "EL1"),
    (0b0_1000, "EL2 with SP_EL0"),
    (0b0_1001, "EL2"),
    (0b0_1100, "EL3 with SP_EL0"),
    (0b0_1101, "EL3"),
    (0b1_0000, "AArch32 User"),
    (0b1_0001, "AArch32 FIQ"),
    (0b1_0010, "AArch32 IRQ"),
    (0b1_0011, "AArch32 Supervisor"),
    (0b1_0110, "AArch32 Monitor"),
    (0b1_0111, "AArch32 Abort"),
    (0b1_1010, "AArch32 Hyp"),
    (0b1_1011, "AArch32 Undefined"),
    (0b1_1111, "AArch32 System"),
];

registers! {
    /// FAR_EL1, and FAR_EL2 and FAR_EL3.
    FAR_EL1 = [number("VA", 63, 0, "the address that faulted")];
    /// HPFAR_EL2.
    HPFAR_EL2 = [
        flag("NS", 63, "the address is of the Non-secure space (counts in Secure state alone)"),
        number("FIPA", 47, 4, "the intermediate address that faulted, from bit 12"),
    ];
    /// SPSR_EL1, and SPSR_EL2 and SPSR_EL3, of an exception from AArch64.
    SPSR_EL1 = [
        flag("UINJ", 36, "an undefined instruction exception is injected (FEAT_UINJ)"),
        flag("PACM", 35, "pointer authentication uses the modifier (FEAT_PAuth_LR)"),
        flag("EXLOCK", 34, "exception return is locked (FEAT_GCS)"),
        flag("PPEND", 33, "a profiling exception is pending (FEAT_SEBEP)"),
        flag("PM", 32, "profiling exceptions are masked (FEAT_SEBEP)"),
        flag("N", 31, "the result was negative"),
        flag("Z", 30, "the result was zero"),
        flag("C", 29, "carry"),
        flag("V", 28, "overflow"),
        flag("TCO", 25, "tags are not checked (FEAT_MTE)"),
        flag("DIT", 24, "data independent timing (FEAT_DIT)"),
        flag("UAO", 23, "user access override (FEAT_UAO)"),
        flag("PAN", 22, "privileged accesses to what EL0 may access fault (FEAT_PAN)"),
        flag("SS", 21, "software step"),
        flag("IL", 20, "illegal execution state"),
        flag("ALLINT", 13, "all interrupts are masked (FEAT_NMI)"),
        flag("SSBS", 12, "loads may bypass stores by speculation (FEAT_SSBS)"),
        number("BTYPE", 11, 10, "branch type (FEAT_BTI)"),
        flag("D", 9, "debug exceptions are masked"),
        flag("A", 8, "SErrors are masked"),
        flag("I", 7, "IRQs are masked"),
        flag("F", 6, "FIQs are masked"),
        named("M", 4, 0, "from", MODES),
    ];
}
