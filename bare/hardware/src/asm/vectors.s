// The vectors of EL1. Kernel code runs on SP_EL0; an exception runs on SP_EL1, the CPU's exception stack, so that a
// thread stack that has run out can be reported. An exception in an exception handler (the second group) finds SP_EL1
// of doubtful worth and takes the CPU's emergency stack; it never returns.

    .macro  save_and_handle, index
    stp     x0, x1, [sp, #-{FRAME_SIZE}]!
    mov     x0, #\index
    b       save_registers
    .endm

    .macro  vector, index
    .balign 0x80
    save_and_handle \index
    .endm

    // EL0's thread registers are free to hold what there is no memory for yet: this path ends the machine.
    .macro  emergency_vector, index
    .balign 0x80
    msr     tpidrro_el0, x0
    mov     x0, sp
    msr     tpidr_el0, x0           // for the report
    mrs     x0, tpidr_el1
    ldr     x0, [x0, #{PER_CPU_EMERGENCY_STACK}]
    mov     sp, x0
    mrs     x0, tpidrro_el0
    save_and_handle \index
    .endm

    .text
    .balign 0x800
    .global vectors
vectors:
    .irp    index, 0, 1, 2, 3       // EL1 on SP_EL0: synchronous, IRQ, FIQ, SError
    vector  \index
    .endr
    .irp    index, 4, 5, 6, 7       // EL1 on SP_EL1
    emergency_vector \index
    .endr
    .irp    index, 8, 9, 10, 11, 12, 13, 14, 15 // EL0
    vector  \index
    .endr

// x0 the vector's index; x0 and x1 are already in the frame.
    .balign 0x80
save_registers:
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
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
    ldp     x28, x29, [sp, #224]
    ldp     x26, x27, [sp, #208]
    ldp     x24, x25, [sp, #192]
    ldp     x22, x23, [sp, #176]
    ldp     x20, x21, [sp, #160]
    ldp     x18, x19, [sp, #144]
    ldp     x16, x17, [sp, #128]
    ldp     x14, x15, [sp, #112]
    ldp     x12, x13, [sp, #96]
    ldp     x10, x11, [sp, #80]
    ldp     x8, x9, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp], #{FRAME_SIZE}
    eret
