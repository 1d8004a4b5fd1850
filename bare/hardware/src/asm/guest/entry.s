// A guest without an MMU: the flat Image header, the way to Rust, and vectors that pass over whatever went wrong. With the
// MMU off all memory is Device-nGnRnE memory, at its physical address.

    image_header guest_header, .text.guest_header, guest_entry

    .section .text.identity, "ax"
guest_entry:
    msr     daifset, #0xf
    mov     x19, x0
    bl      enter_el1
    ic      iallu
    dsb     nsh                     // the invalidation is complete before
    isb                             // anything further is fetched
    // Lines that a loader left dirty over bss would be evicted over what is written there from now on.
    adrp    x0, bss_start
    adrp    x1, image_end
    bl      invalidate_to_poc
    adrp    x0, bss_start
    adrp    x1, image_end
1:  stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    1b
    adrp    x0, image_start
    mov     x1, x0
    bl      relocate
    mov     x0, xzr
    bl      set_up_guest_cpu
    mov     x0, x19
    bl      guest_main              // does not return
    brk     #0

// Where PSCI CPU_ON starts another CPU, with its number in x0.
    .global guest_secondary_entry
guest_secondary_entry:
    msr     daifset, #0xf
    mov     x19, x0
    bl      enter_el1
    mov     x0, x19
    bl      set_up_guest_cpu
    mov     x0, x19
    bl      guest_secondary         // does not return
    brk     #0

// x0 the CPU's number. Its record stands at the top of its stack.
set_up_guest_cpu:
    msr     spsel, #1
    adrp    x1, guest_stacks
    add     x0, x0, #1
    add     x0, x1, x0, lsl #{STACK_SHIFT}
    sub     x0, x0, #16
    mov     sp, x0
    msr     tpidr_el1, x0           // the count of its exceptions
    adrp    x0, guest_vectors
    add     x0, x0, :lo12:guest_vectors
    msr     vbar_el1, x0
    isb                             // an exception from here on finds the vectors
    ret

// fn(x0 to x3, x4 the instruction's address) -> (x0, x1): runs one instruction, which a RET follows.
    .text
    .global guest_execute
guest_execute:
    stp     x29, x30, [sp, #-16]!
    blr     x4
    ldp     x29, x30, [sp], #16
    ret

    .macro  passing_vector, is_synchronous
    .balign 0x80
    stp     x0, x1, [sp, #-16]!
    mov     x0, #\is_synchronous
    b       pass_over
    .endm

    .balign 0x800
guest_vectors:
    .rept   4
    passing_vector 1
    passing_vector 0
    passing_vector 0
    passing_vector 0
    .endr

// Counts the exception. A synchronous one goes on behind the instruction; a fetch that was refused returns to its caller.
    .balign 0x80
pass_over:
    cbz     x0, 2f
    mrs     x0, tpidr_el1
    ldr     x1, [x0]
    add     x1, x1, #1
    str     x1, [x0]
    mrs     x0, esr_el1
    lsr     x0, x0, #26             // EC
    cmp     x0, #0x21               // instruction abort
    b.eq    1f
    mrs     x0, elr_el1
    add     x0, x0, #4
    msr     elr_el1, x0
    b       2f
1:  msr     elr_el1, x30
2:  mrs     x0, spsr_el1
    orr     x0, x0, #0x3c0          // whatever unmasked them: DAIF are masked again
    msr     spsr_el1, x0
    ldp     x0, x1, [sp], #16
    eret

    .section .bss.guest_stacks, "aw", %nobits
    .balign 4096
    .global guest_stacks
guest_stacks:
    .space  {CPUS} << {STACK_SHIFT}
