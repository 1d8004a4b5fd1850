// EL0, as a call that comes back with the next exception from there; and what a thread of the kernel leaves behind for another.

    .macro  save_callee_saved
    stp     x19, x20, [sp, #-96]!
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    .endm

    .macro  restore_callee_saved
    ldp     x21, x22, [sp, #16]
    ldp     x23, x24, [sp, #32]
    ldp     x25, x26, [sp, #48]
    ldp     x27, x28, [sp, #64]
    ldp     x29, x30, [sp, #80]
    ldp     x19, x20, [sp], #96
    .endm

    .section .text.vectors, "ax"
// The frame is any memory, where a TLB conflict abort may come, which overwrites ELR_EL1 and what else an exception leaves. So
// nothing of the frame is touched while one of those counts: on both ways they pass the exception stack, as x0 and x1 do.

// fn enter_user(frame: x0) -> x0: the kind of the exception. Exceptions are masked, before and after.
    .global enter_user
enter_user:
    save_callee_saved
    mrs     x9, tpidr_el1
    mov     x10, sp
    stp     x0, x10, [x9, #{PER_CPU_USER}]
    msr     spsel, #1               // EL1 can name the other stack pointer only
    ldp     x1, x2, [x0]
    stp     x1, x2, [sp, #-16]!
    ldp     x30, x1, [x0, #240]
    msr     sp_el0, x1
    restore_x2_to_x29 x0
    ldp     x0, x1, [x0, #{FRAME_ELR}]
    msr     elr_el1, x0
    msr     spsr_el1, x1
    ldp     x0, x1, [sp], #16
    eret

// From the vectors: x0 and x1 are on the exception stack, x1 is the kind.
leave_user:
    stp     x2, x3, [sp, #-48]!
    mrs     x2, elr_el1
    mrs     x3, spsr_el1
    stp     x2, x3, [sp, #16]
    mrs     x2, esr_el1
    mrs     x3, far_el1
    stp     x2, x3, [sp, #32]
    ldp     x2, x3, [sp], #16
    mrs     x0, tpidr_el1
    ldr     x0, [x0, #{PER_CPU_USER}]
    save_x2_to_x29 x0
    ldp     x2, x3, [sp], #16
    stp     x2, x3, [x0, #{FRAME_ELR}]
    ldp     x2, x3, [sp], #16
    stp     x2, x3, [x0, #{FRAME_ESR}]
    ldp     x2, x3, [sp], #16
    stp     x2, x3, [x0]
    mrs     x2, sp_el0
    stp     x30, x2, [x0, #240]
    mrs     x9, tpidr_el1
    ldr     x10, [x9, #({PER_CPU_USER} + 8)]
    msr     spsel, #0
    mov     sp, x10
    restore_callee_saved
    mov     x0, x1
    ret

    .text
// fn switch_thread(from: x0, to: x1): leaves this thread's stack pointer at x0, and goes on with that of another.
    .global switch_thread
switch_thread:
    save_callee_saved
    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    restore_callee_saved
    ret

// Where a new thread begins: x19 is its function, x20 the argument.
    .global begin_thread
begin_thread:
    mov     x0, x20
    mov     x29, xzr                // frame records end here
    mov     x30, xzr
    br      x19

// Copies by unprivileged accesses: what EL0 may not do, they may not. A fault in them is resumed at `user_copy_faulted`.
    .global user_copies_start
user_copies_start:
// fn copy_from_user(to: x0, from: x1, bytes: x2) -> x0: the bytes that are left.
    .global copy_from_user
copy_from_user:
1:  cmp     x2, #8
    b.lo    2f
    ldtr    x3, [x1]
    str     x3, [x0], #8
    add     x1, x1, #8
    sub     x2, x2, #8
    b       1b
2:  cbz     x2, user_copy_faulted
    ldtrb   w3, [x1]
    strb    w3, [x0], #1
    add     x1, x1, #1
    sub     x2, x2, #1
    b       2b

// fn copy_to_user(to: x0, from: x1, bytes: x2) -> x0: the bytes that are left.
    .global copy_to_user
copy_to_user:
1:  cmp     x2, #8
    b.lo    2f
    ldr     x3, [x1]
    sttr    x3, [x0]
    add     x0, x0, #8
    add     x1, x1, #8
    sub     x2, x2, #8
    b       1b
2:  cbz     x2, user_copy_faulted
    ldrb    w3, [x1]
    sttrb   w3, [x0]
    add     x0, x0, #1
    add     x1, x1, #1
    sub     x2, x2, #1
    b       2b

// fn load_word_of_user(to: x0, from: x1, bytes: x2, 4) -> x0: the bytes that are left. One access.
    .global load_word_of_user
load_word_of_user:
    ldtr    w3, [x1]
    str     w3, [x0]
    mov     x2, xzr
    b       user_copy_faulted

// fn exchange_word_of_user(at: x0, words: x1, bytes: x2, 4) -> x0: the bytes that are left. The words: what is expected, what comes in
// its place, what was found. There are no unprivileged exclusives: the caller has PSTATE.PAN off. What EL0 may not
// write in the lower half, EL1 may not either.
    .global exchange_word_of_user
exchange_word_of_user:
    ldp     w3, w4, [x1]
1:  ldaxr   w5, [x0]                // what the program does behind the call comes behind this
    cmp     w5, w3
    b.ne    2f
    stlxr   w6, w4, [x0]            // what it did before is there for whoever finds the new word
    cbnz    w6, 1b
2:  str     w5, [x1, #8]
    mov     x2, xzr
    .global user_copies_end
user_copies_end:
    .global user_copy_faulted
user_copy_faulted:
    mov     x0, x2
    ret

// fn load_hint(from: x0) -> x0: the word, or all ones where the load faults.
    .global load_hint
load_hint:
    ldr     w0, [x0]
    ret
    .global hint_faulted
hint_faulted:
    mov     x0, #-1
    ret

    .arch_extension simd
// fn save_simd(to: x0)
    .global save_simd
save_simd:
    stp     q0, q1, [x0, #16]
    stp     q2, q3, [x0, #48]
    stp     q4, q5, [x0, #80]
    stp     q6, q7, [x0, #112]
    stp     q8, q9, [x0, #144]
    stp     q10, q11, [x0, #176]
    stp     q12, q13, [x0, #208]
    stp     q14, q15, [x0, #240]
    stp     q16, q17, [x0, #272]
    stp     q18, q19, [x0, #304]
    stp     q20, q21, [x0, #336]
    stp     q22, q23, [x0, #368]
    stp     q24, q25, [x0, #400]
    stp     q26, q27, [x0, #432]
    stp     q28, q29, [x0, #464]
    stp     q30, q31, [x0, #496]
    mrs     x1, fpcr
    mrs     x2, fpsr
    stp     x1, x2, [x0]
    ret

// fn restore_simd(from: x0)
    .global restore_simd
restore_simd:
    ldp     q0, q1, [x0, #16]
    ldp     q2, q3, [x0, #48]
    ldp     q4, q5, [x0, #80]
    ldp     q6, q7, [x0, #112]
    ldp     q8, q9, [x0, #144]
    ldp     q10, q11, [x0, #176]
    ldp     q12, q13, [x0, #208]
    ldp     q14, q15, [x0, #240]
    ldp     q16, q17, [x0, #272]
    ldp     q18, q19, [x0, #304]
    ldp     q20, q21, [x0, #336]
    ldp     q22, q23, [x0, #368]
    ldp     q24, q25, [x0, #400]
    ldp     q26, q27, [x0, #432]
    ldp     q28, q29, [x0, #464]
    ldp     q30, q31, [x0, #496]
    ldp     x1, x2, [x0]
    msr     fpcr, x1
    msr     fpsr, x2
    ret

    .arch_extension sve
    .macro  each_predicate instruction
    .irp    number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    \instruction    p\number, [x0, #\number, mul vl]
    .endr
    .endm

// fn save_predicates(to: x0): P0 to P15, then FFR, which passes a predicate only.
    .global save_predicates
save_predicates:
    each_predicate str
    rdffr   p0.b
    str     p0, [x0, #16, mul vl]
    ldr     p0, [x0]
    ret

// fn restore_predicates(from: x0)
    .global restore_predicates
restore_predicates:
    ldr     p0, [x0, #16, mul vl]
    wrffr   p0.b
    each_predicate ldr
    ret
