// The MMU of a guest that stays where it is, vectors that return from what it handles, and the way to EL0 and back.
// All of this, the stacks too, is mapped by pages that are never resized: a TLB conflict abort may come anywhere else.

    .macro  handling_vector, index
    .balign 0x80
    sub     sp, sp, #{FRAME_BYTES}
    stp     x0, x1, [sp]
    mov     x0, #\index
    b       handle_exception
    .endm

    .text
// fn(x0 the `Translation`, x1 and x2 the range that was written past the caches, x3 the CPU's number): no store is made on
// the way, lest another CPU fetch a line of the stack in between.
    .global turn_guest_mmu_on
turn_guest_mmu_on:
    ldp     x4, x5, [x0]            // MAIR_EL1, TCR_EL1
    ldr     x6, [x0, #16]           // TTBR0_EL1
    ldr     x7, [x0, #{TRANSLATION_SCTLR}]
    msr     tpidr_el1, x3
    mov     x9, x30
    mov     x0, x1
    mov     x1, x2
    bl      invalidate_to_poc       // lines fetched before would hide what was written past them
    adrp    x0, handling_vectors
    add     x0, x0, :lo12:handling_vectors
    msr     vbar_el1, x0
    msr     mair_el1, x4
    msr     tcr_el1, x5
    msr     ttbr0_el1, x6
    isb                             // the invalidation is by the new registers
    tlbi    vmalle1                 // whatever reset has left
    ic      iallu                   // code was written past the caches too
    dsb     nsh                     // both are complete before the first walk and fetch
    isb
    msr     sctlr_el1, x7
    isb                             // what follows is fetched by the map
    ret     x9

    .balign 0x800
handling_vectors:
    .irp index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    handling_vector \index
    .endr
    .balign 0x80

handle_exception:
    save_x2_to_x29
    mrs     x1, elr_el1
    stp     x30, x1, [sp, #240]
    mrs     x1, esr_el1
    mrs     x2, far_el1
    stp     x1, x2, [sp, #256]
    mov     x1, sp
    .weak   handle_guest_exception  // no handler where the MMU stays off
    bl      handle_guest_exception
    cbnz    x0, leave_el0
    // Nothing is nested: ELR_EL1 and SPSR_EL1 are what they were.
    ldr     x30, [sp, #240]
    restore_x2_to_x29
    ldp     x0, x1, [sp], #{FRAME_BYTES}
    eret                            // also synchronizes the context after the handler's TLBI

// fn(x0 value, x1 address, x2 code) -> (x0, x1): calls code at EL0, which ends with an SVC.
    .global call_at_el0
call_at_el0:
    stp     x29, x30, [sp, #-96]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    msr     elr_el1, x2
    mov     x3, #0x3c0              // EL0, DAIF masked
    msr     spsr_el1, x3
    eret

// After the SVC: what the code left in x0 and x1 is the answer to who called it.
leave_el0:
    ldp     x0, x1, [sp], #{FRAME_BYTES}
    ldp     x27, x28, [sp, #80]
    ldp     x25, x26, [sp, #64]
    ldp     x23, x24, [sp, #48]
    ldp     x21, x22, [sp, #32]
    ldp     x19, x20, [sp, #16]
    ldp     x29, x30, [sp], #96
    ret
