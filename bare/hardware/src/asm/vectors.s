// The vectors of EL1. Kernel code runs on SP_EL0; an exception runs on SP_EL1, the CPU's exception stack, so that a
// thread stack that has run out can be reported. An exception in an exception handler (the second group) finds SP_EL1
// of doubtful worth and takes the CPU's emergency stack; it never returns. A TLB conflict abort comes before all of that.

    .macro  save_and_handle, index
    stp     x0, x1, [sp, #-{FRAME_SIZE}]!
    mov     x0, #\index
    b       save_registers
    .endm

    .macro  vector, index
    .balign 0x80
    unless_conflict \index
    save_and_handle \index
    .endm

    // EL0's thread registers are free to hold what there is no memory for yet: this path ends the machine.
    .macro  emergency_vector, index
    .balign 0x80
    unless_conflict \index
    msr     tpidrro_el0, x0
    mov     x0, sp
    msr     tpidr_el0, x0           // for the report
    mrs     x0, tpidr_el1
    ldr     x0, [x0, #{PER_CPU_EMERGENCY_STACK}]
    mov     sp, x0
    mrs     x0, tpidrro_el0
    save_and_handle \index
    .endm

    .section .text.vectors, "ax"
    .balign 0x800
    .global vectors
vectors:
    .irp    index, 0, 1, 2, 3       // EL1 on SP_EL0: synchronous, IRQ, FIQ, SError
    vector  \index
    .endr
    .irp    index, 4, 5, 6, 7       // EL1 on SP_EL1
    emergency_vector \index
    .endr
    .irp    index, 8, 9, 10, 11     // EL0: back to whom `enter_user` was called by
    .balign 0x80
    unless_conflict \index
    stp     x0, x1, [sp, #-16]!
    mov     x1, #(\index - 8)
    b       leave_user
    .endr
    .irp    index, 12, 13, 14, 15   // EL0 in AArch32, which nothing enters
    vector  \index
    .endr

// x0 the vector's index; x0 and x1 are already in the frame.
    .balign 0x80
save_registers:
    save_x2_to_x29
    mrs     x1, sp_el0
    stp     x30, x1, [sp, #240]
    mrs     x1, elr_el1
    mrs     x2, spsr_el1
    stp     x1, x2, [sp, #{FRAME_ELR}]
    mrs     x1, esr_el1
    mrs     x2, far_el1
    stp     x1, x2, [sp, #{FRAME_ESR}]
    mov     x1, sp
    mov     x29, xzr                // frame records of the handler end here
    bl      handle_exception

    ldp     x1, x2, [sp, #{FRAME_ELR}]
    msr     elr_el1, x1
    msr     spsr_el1, x2
    ldp     x30, x1, [sp, #240]
    msr     sp_el0, x1
    restore_x2_to_x29
    ldp     x0, x1, [sp], #{FRAME_SIZE}
    eret
