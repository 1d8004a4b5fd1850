// What EL1 finds. Every EL2 register that changes what EL1 sees has an UNKNOWN reset value, so each is written. The
// values are for HCR_EL2.E2H = 0.

    .macro  known_el1_state
    // RES1 bits of Armv8.0: MMU, caches and alignment checks off, little-endian.
    mov     x0, #0x0800
    movk    x0, #0x30d0, lsl #16
    msr     sctlr_el1, x0
    msr     cpacr_el1, xzr          // a floating-point instruction in a soft-float kernel is to trap, not to pass
    .endm

    .section .text.identity, "ax"
// Entered at EL2 or EL1 with the MMU off, returns at EL1. Clobbers x0-x3.
    .global enter_el1
enter_el1:
    mrs     x0, CurrentEL
    cmp     x0, #(2 << 2)
    b.eq    1f
    known_el1_state
    isb                             // what follows runs by the new values
    ret

1:  mov     x3, x30
    bl      prepare_el1
    mov     x0, #0x3c5              // EL1 on SP_EL1, DAIF masked
    msr     spsr_el2, x0
    msr     elr_el2, x3
    eret                            // also the context synchronization that all of the above needs

// At EL2 with the MMU off: an EL1 as it is without an EL2, and this EL2 in a known state. Clobbers x0-x2.
    .global prepare_el1
prepare_el1:
    mov     x0, #(1 << 31)          // RW: EL1 is AArch64. No traps, no stage 2, E2H = 0.
    msr     hcr_el2, x0
    // With E2H = 1 the names of EL1's registers would mean those of EL2, and others would be laid out differently.
    isb
    known_el1_state
    adrp    x0, el2_vectors
    add     x0, x0, :lo12:el2_vectors
    msr     vbar_el2, x0
    isb                             // an undefined instruction from here on finds the vectors
    mov     x0, #0x0830
    movk    x0, #0x30c5, lsl #16
    msr     sctlr_el2, x0           // RES1 bits: MMU and caches off
    mov     x0, #3                  // EL1PCTEN, EL1PCEN: EL1 uses counter and timer without traps
    msr     cnthctl_el2, x0
    msr     cntvoff_el2, xzr        // virtual time is physical time, on every CPU
    mrs     x0, id_aa64pfr0_el1
    tst     x0, #(0xf << 32)        // SVE
    mov     x0, #0x33ff             // RES1 bits: floating point is not trapped, SME (never used) is
    mov     x1, #0x32ff             // nor is SVE (TZ), of which EL1 has vectors of 128 bits only, whatever ZCR_EL2 says
    csel    x0, x0, x1, eq
    msr     cptr_el2, x0
    msr     hstr_el2, xzr           // no traps of AArch32 system registers
    msr     vttbr_el2, xzr          // VMID 0, which tags EL1's TLB entries even without a stage 2
    mrs     x0, midr_el1
    msr     vpidr_el2, x0           // EL1 reads its real identity
    mrs     x0, mpidr_el1
    msr     vmpidr_el2, x0

    mrs     x0, id_aa64dfr0_el1
    ubfx    x0, x0, #8, #4          // PMUVer
    mov     x1, xzr
    cbz     x0, 2f
    cmp     x0, #15
    b.eq    2f
    mrs     x1, pmcr_el0
    ubfx    x1, x1, #11, #5         // HPMN = N: every event counter belongs to EL1
2:  msr     mdcr_el2, x1            // and nothing of debug, profiling or counting traps

    mrs     x0, id_aa64pfr0_el1
    ubfx    x0, x0, #24, #4         // GIC: system register interface
    cbz     x0, 3f
    mov     x0, #0xf                // SRE, DFB, DIB, Enable: EL1 may use ICC_*_EL1
    msr     icc_sre_el2, x0
    isb                             // SRE takes effect before ICH_* is used
    mrs     x0, icc_sre_el2
    tbz     x0, #0, 3f              // firmware at EL3 keeps it for itself
    msr     ich_hcr_el2, xzr        // no virtual interrupts, no traps

    // No fine-grained traps. Of the bits that trap when they are clear, those are set whose registers EL1 may find in use.
3:  mrs     x0, id_aa64mmfr0_el1
    ubfx    x0, x0, #56, #4         // FGT
    cbz     x0, 5f
    mrs     x1, id_aa64pfr1_el1
    tst     x1, #(0xf << 24)        // SME
    mov     x1, #(3 << 54)          // nTPIDR2_EL0, nSMPRI_EL1
    csel    x1, xzr, x1, eq
    msr     S3_4_C1_C1_4, x1        // HFGRTR_EL2
    msr     S3_4_C1_C1_5, x1        // HFGWTR_EL2
    msr     S3_4_C1_C1_6, xzr       // HFGITR_EL2
    msr     S3_4_C3_C1_4, xzr       // HDFGRTR_EL2
    msr     S3_4_C3_C1_5, xzr       // HDFGWTR_EL2
    mrs     x1, id_aa64pfr0_el1
    tst     x1, #(0xf << 44)        // AMU
    b.eq    4f
    msr     S3_4_C3_C1_6, xzr       // HAFGRTR_EL2
4:  cmp     x0, #2                  // FEAT_FGT2
    b.lo    5f
    msr     S3_4_C3_C1_2, xzr       // HFGRTR2_EL2
    msr     S3_4_C3_C1_3, xzr       // HFGWTR2_EL2
    msr     S3_4_C3_C1_7, xzr       // HFGITR2_EL2
    mrs     x1, id_aa64dfr0_el1
    ubfx    x1, x1, #8, #4          // PMUVer: 9 to 14 have FEAT_PMUv3p9
    sub     x1, x1, #9
    cmp     x1, #(15 - 9)
    mov     x1, #(1 << 4)           // nPMUACR_EL1
    csel    x1, x1, xzr, lo
    msr     S3_4_C3_C1_0, x1        // HDFGRTR2_EL2
    orr     x1, x1, x1, lsl #17     // nPMZR_EL0
    msr     S3_4_C3_C1_1, x1        // HDFGWTR2_EL2

5:  mrs     x0, id_aa64mmfr1_el1
    ubfx    x0, x0, #40, #4         // HCX
    cbz     x0, 6f
    mrs     x1, S3_0_C0_C4_2        // ID_AA64PFR2_EL1
    tst     x1, #(0xf << 32)        // FPMR
    mov     x1, #(1 << 23)          // EnFPM
    csel    x1, xzr, x1, eq
    msr     S3_4_C1_C2_2, x1        // HCRX_EL2: EL1's TLBIs and DSBs mean what they say (FnXS = 0)

6:  ret

// From EL2 itself: a register that an ID register promises and the machine lacks (QEMU's a64fx with a GICv2 has no
// ICC_SRE_EL2) is passed over, and reads as zero. From EL1 nothing traps but an HVC, and this kernel makes none when it
// was entered here: answer NOT_SUPPORTED.
    .balign 0x800
el2_vectors:
    .rept   8
    .balign 0x80
    mrs     x0, esr_el2
    lsr     x0, x0, #26             // EC: 0 for an undefined instruction
    cbnz    x0, unexpected_at_el2   // anything else is beyond help
    mrs     x0, elr_el2
    add     x0, x0, #4
    msr     elr_el2, x0
    mov     x0, xzr
    eret
    .endr
    .rept   8
    .balign 0x80
    mov     x0, #-1
    eret
    .endr
    .balign 0x80

unexpected_at_el2:
    adr     x0, unexpected_at_el2_text
    b       say_and_stop
unexpected_at_el2_text:
    .asciz  "\nvellum: an exception at EL2 that entry has no answer to; the machine stops\n"
    .balign 4
