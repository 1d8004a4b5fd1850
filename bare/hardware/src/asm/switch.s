// Changes how this CPU translates: from no translation to some, from one granule to another, or to other tables. Runs
// at an address that is its own physical address in the old translation and in the new one, and touches no memory.
//   x0 MAIR_EL1   x1 TCR_EL1   x2 TTBR0_EL1   x3 TTBR1_EL1   x4 SCTLR_EL1, with M set
// Clobbers x5. Exceptions are masked: the vectors may be in neither translation.

    .section .text.identity, "ax"
    .global switch_translation
switch_translation:
    mrs     x5, sctlr_el1
    bic     x5, x5, #1
    msr     sctlr_el1, x5
    // The MMU is off before any register that a walk uses changes: otherwise a walk could use the old tables with the
    // new granule, and what it cached would be garbage.
    isb
    msr     mair_el1, x0
    msr     tcr_el1, x1
    msr     ttbr0_el1, x2
    msr     ttbr1_el1, x3
    // Whatever the TLBs hold comes from other tables, or from before reset, with the ASID that the new ones use. Local
    // is enough: every CPU comes through here by itself.
    tlbi    vmalle1
    // The invalidation is complete, or an old entry could be hit once the MMU is on. So are this CPU's stores to the new
    // tables, or a walk could miss them; those of another CPU are its own to complete.
    dsb     nsh
    isb                             // the registers above have their values before the first walk
    msr     sctlr_el1, x4
    isb                             // the next instruction is fetched through the new translation
    ret

// Leaves the identity map for the high half.
//   x0 the `Translation` to switch to   x1 the address to go to   x2 its argument
//   x3 the stack to have there   x4 the exception stack to have there   x5 the address the image runs at there
    .global leave_identity_map
leave_identity_map:
    msr     daifset, #0xf
    mov     x19, x1
    mov     x20, x2
    mov     x21, x3
    mov     x22, x4
    ldp     x23, x24, [x0]
    ldp     x25, x26, [x0, #16]
    ldr     x27, [x0, #32]
    // From here on absolute addresses in data are high ones, so no Rust may run before the jump.
    mov     x0, x5
    adrp    x1, image_start
    bl      relocate
    msr     spsel, #1
    mov     sp, x22
    msr     spsel, #0
    mov     sp, x21
    mov     x0, x23
    mov     x1, x24
    mov     x2, x25
    mov     x3, x26
    mov     x4, x27
    bl      switch_translation
    mov     x0, x20
    mov     x29, xzr                // frame records end here
    mov     x30, xzr
    br      x19
