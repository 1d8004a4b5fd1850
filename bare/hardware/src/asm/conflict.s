// TLB conflict aborts: this CPU forgets all that its TLBs hold, and makes the access again. Whatever was running, an exception
// handler too, goes on: no stack is taken, and no register changes. ELR_EL1 and SPSR_EL1 are what the abort left, which is why no
// conflict may come while they hold something else: the code and data of every entry and exit are in pages that never change size.

    // At the beginning of a synchronous vector. TPIDRRO_EL0 is free to hold what there is no memory for yet.
    .macro  unless_conflict, index
    .if     \index == 0 || \index == 4 || \index == 8
    msr     tpidrro_el0, x0
    mrs     x0, esr_el1
    and     x0, x0, #0x3f           // DFSC or IFSC, if this is an abort
    sub     x0, x0, #0x30
    cbnz    x0, .Lno_conflict_\index
    mrs     x0, esr_el1
    ubfx    x0, x0, #26, #6
    and     x0, x0, #~1             // EC of an instruction abort (0x20, 0x21), of a data abort (0x24, 0x25)
    and     x0, x0, #~4
    sub     x0, x0, #0x20
    cbz     x0, end_conflict
.Lno_conflict_\index:
    mrs     x0, tpidrro_el0
    msr     tpidrro_el0, xzr        // EL0 can read it
    .endif
    .endm

    .section .text.vectors, "ax"
    .balign 0x80
// x0 is in TPIDRRO_EL0.
end_conflict:
    mrs     x0, tpidr_el1
    stp     x1, x2, [x0, #{CONFLICT_SCRATCH}]
    str     x3, [x0, #({CONFLICT_SCRATCH} + 16)]
    mrs     x1, esr_el1
    ubfx    x1, x1, #28, #1         // EC: 0 of a fetch, 1 of an access to data
    add     x1, x0, x1, lsl #3
    ldr     x2, [x1, #{CONFLICT_COUNTS}]
    add     x2, x2, #1
    str     x2, [x1, #{CONFLICT_COUNTS}]
    // Is it of the same instruction as the last one, and no leaf has changed its size since? FAR_EL1 is not looked at: it may be UNKNOWN.
    // No flag is touched: they are not this code's.
    mrs     x1, elr_el1
    ldr     x3, [x0, #{CONFLICT_LAST}]
    str     x1, [x0, #{CONFLICT_LAST}]
    eor     x1, x1, x3
    adrp    x2, resizes
    ldr     x2, [x2, :lo12:resizes]
    ldr     x3, [x0, #{CONFLICT_RESIZES}]
    str     x2, [x0, #{CONFLICT_RESIZES}]
    eor     x2, x2, x3
    orr     x1, x1, x2
    ldr     x2, [x0, #{CONFLICT_REPEATS}]
    add     x2, x2, #1
    cbz     x1, 1f
    mov     x2, #0
1:  str     x2, [x0, #{CONFLICT_REPEATS}]
    ldr     x1, [x0, #{CONFLICT_PATIENCE}]
    sub     x1, x2, x1
    tbz     x1, #63, 2f             // it has come too often
    // Which entries conflict nobody knows, and those of this CPU alone do.
    tlbi    vmalle1
    dsb     nsh                     // the access is made again, and must not meet them
    ldr     x3, [x0, #({CONFLICT_SCRATCH} + 16)]
    ldp     x1, x2, [x0, #{CONFLICT_SCRATCH}]
    mrs     x0, tpidrro_el0
    msr     tpidrro_el0, xzr
    eret                            // also synchronizes the context

// The vector goes on as if there were no handler. Where it is, SPSR_EL1 tells: M[2] EL1, M[0] SP_EL1.
2:  ldr     x3, [x0, #({CONFLICT_SCRATCH} + 16)]
    ldp     x1, x2, [x0, #{CONFLICT_SCRATCH}]
    mrs     x0, spsr_el1
    tbz     x0, #2, .Lno_conflict_8
    tbnz    x0, #0, .Lno_conflict_4
    b       .Lno_conflict_0
