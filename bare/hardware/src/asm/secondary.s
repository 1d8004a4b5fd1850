// Where PSCI CPU_ON starts a secondary: MMU off, x0 = physical address of its `StartRecord`, which the boot CPU has
// cleaned to the point of coherency. x19 keeps it. No stack until the MMU is on: a stack's lines may still be dirty in
// another CPU's cache.

    .section .text.identity, "ax"
    .global secondary_entry
secondary_entry:
    msr     daifset, #0xf           // no vectors yet
    mov     x19, x0
    bl      enter_el1

    mrs     x1, midr_el1
    mrs     x2, id_aa64isar0_el1
    mrs     x3, id_aa64mmfr0_el1
    mrs     x4, S3_0_C0_C7_2        // ID_AA64MMFR2_EL1
    add     x0, x19, #{START_ANSWER}
    stp     x1, x2, [x0, #{ANSWER_MIDR}]
    stp     x3, x4, [x0, #{ANSWER_MMFR0}]
    mov     x1, #1
    dmb     st                      // what it says is there before it is told that it is
    str     x1, [x0]
    add     x1, x0, #64
    bl      invalidate_to_poc       // the boot CPU's caches may hold the lines as they were before

    // The gate. A CPU that walked the tables before it is counted could meet a change that it does not tolerate; and one
    // that lacks a granule or an address size of theirs would give them some other translation.
1:  ldr     x1, [x19, #{START_GATE}]
    cbnz    x1, 2f
    wfe                             // an event follows the store that decides
    b       1b

2:  cmp     x1, #{TURNED_AWAY}
    b.eq    turned_away
    ldp     x0, x1, [x19, #{START_TRANSLATION}]
    ldp     x2, x3, [x19, #({START_TRANSLATION} + 16)]
    ldr     x4, [x19, #({START_TRANSLATION} + 32)]
    ldp     x6, x7, [x19, #{START_STACK}]
    ldp     x20, x21, [x19, #{START_PER_CPU}]
    ldp     x22, x23, [x19, #{START_ENTRY}]
    msr     spsel, #1
    mov     sp, x7
    msr     spsel, #0
    mov     sp, x6
    msr     tpidr_el1, x20
    bl      switch_translation      // the record is out of reach from here on
    msr     vbar_el1, x21
    isb                             // an exception from here on finds the vectors
    mov     x0, x23
    mov     x29, xzr                // frame records end here
    mov     x30, xzr
    br      x22

turned_away:
    mov     x0, #0x0002             // PSCI CPU_OFF
    movk    x0, #0x8400, lsl #16
    ldr     x1, [x19, #{START_CONDUIT}]
    cbnz    x1, 1f
    hvc     #0
    b       2f
1:  smc     #0
2:  wfi                             // a firmware that will not switch it off: it touches nothing any more
    b       2b
