// The vectors of EL2. The guest's registers are saved on the CPU's stack, whose top is where SP_EL2 stands whenever the
// guest runs. An exception in the monitor itself is a mistake of ours: it takes the CPU's emergency stack, because the
// ordinary one may be what has run out, and ends the machine.

    .macro  guest_vector, index
    .balign 0x80
    stp     x0, x1, [sp, #-{FRAME_SIZE}]!
    mov     x0, #\index
    b       save_guest
    .endm

    .macro  own_vector, index
    .balign 0x80
    mrs     x0, elr_el2
    adr     x1, probe_at_el2
    cmp     x0, x1
    b.eq    probe_faulted           // x0 and x1 are what a probe clobbers; else they are needed no more
    mrs     x0, tpidr_el2
    adrp    x1, monitor_emergency_stacks
    add     x0, x0, #1
    add     x0, x1, x0, lsl #{EMERGENCY_SHIFT}
    mov     sp, x0
    mov     x0, #\index
    b       report_own
    .endm

    .text
    .balign 0x800
    .global monitor_vectors
monitor_vectors:
    .irp    index, 0, 1, 2, 3, 4, 5, 6, 7           // EL2 itself
    own_vector \index
    .endr
    .irp    index, 8, 9, 10, 11, 12, 13, 14, 15     // the guest, EL0 in AArch32 too
    guest_vector \index
    .endr

// fn(x0 address) -> (x0 value, x1: 0, or 1 where the load faulted).
    .global probe_at_el2
probe_at_el2:
    ldr     x0, [x0]
    mov     x1, #0
    ret
probe_faulted:
    adr     x1, 1f
    msr     elr_el2, x1
    eret
1:  mov     x1, #1
    ret

report_own:
    mrs     x1, esr_el2
    mrs     x2, elr_el2
    mrs     x3, far_el2
    mov     x29, xzr
    bl      handle_own_exception    // does not return
    brk     #0

// x0 the vector's index; x0 and x1 are already in the frame.
    .balign 0x80
save_guest:
    save_x2_to_x29
    mrs     x1, elr_el2
    stp     x30, x1, [sp, #240]
    mrs     x1, spsr_el2
    mrs     x2, esr_el2
    stp     x1, x2, [sp, #{FRAME_SPSR}]
    mrs     x1, far_el2
    mrs     x2, hpfar_el2
    stp     x1, x2, [sp, #{FRAME_FAR}]
    mov     x1, sp
    mov     x29, xzr                // frame records of the handler end here
    bl      handle_exit

    ldr     x1, [sp, #{FRAME_SPSR}]
    msr     spsr_el2, x1
    ldp     x30, x1, [sp, #240]
    msr     elr_el2, x1
    restore_x2_to_x29
    ldp     x0, x1, [sp], #{FRAME_SIZE}
    eret                            // also the context synchronization that changed EL1 registers need

// fn(x0 entry, x1 argument, x2 top of this CPU's stack) -> !: EL1 with its MMU off, DAIF masked, x0 = argument.
    .global enter_guest
enter_guest:
    mov     sp, x2
    msr     elr_el2, x0
    mov     x0, #0x3c5
    msr     spsr_el2, x0
    mov     x0, x1
    .irp    number, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
    mov     x\number, xzr           // nothing of the monitor is the guest's to know
    .endr
    eret
