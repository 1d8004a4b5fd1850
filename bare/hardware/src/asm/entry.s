// Where a boot loader, QEMU or a debugger enters: the flat Image header of the arm64 boot protocol, and the way from
// there to Rust with the MMU on at an identity map.
//
// Until the MMU is on every data access is to Device-nGnRnE memory: no exclusives, no unaligned accesses (the target is
// built with strict-align), and no cache is looked up. x19-x23 live through this file:
//   x19 device tree   x20 exception level of entry   x21 counter at entry   x22 load address   x23 the `Boot` record

    image_header image_header, .text.header, entry

    .section .text.identity, "ax"
entry:
    msr     daifset, #0xf           // there is no vector to take an interrupt with yet
    mov     x19, x0
    mrs     x20, CurrentEL
    lsr     x20, x20, #2
    bl      enter_el1
    // A debugger's load, unlike the boot protocol, may leave older code in the instruction cache.
    ic      iallu
    dsb     nsh                     // the invalidation is complete before
    isb                             // anything further is fetched
    bl      start_counting
    mrs     x21, cntvct_el0
    adrp    x22, image_start

    // The boot protocol has only the image's file part cleaned. A line that a loader left dirty over bss would be
    // evicted over what is written there from now on; drop them all first.
    adrp    x0, bss_start
    adrp    x1, image_end
    bl      invalidate_to_poc
    adrp    x0, bss_start
    adrp    x1, early_tables_start  // tables are written before they are read
1:  stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    1b

    mov     x0, x22                 // absolute addresses are physical for now
    mov     x1, x22
    bl      relocate

    // Exceptions on a stack of their own from the first line of Rust on.
    adrp    x0, per_cpu
    add     x0, x0, :lo12:per_cpu
    msr     tpidr_el1, x0
    adrp    x1, boot_emergency_stack_end
    add     x1, x1, :lo12:boot_emergency_stack_end
    str     x1, [x0, #{PER_CPU_EMERGENCY_STACK}]
    adrp    x1, boot_exception_stack_end
    add     x1, x1, :lo12:boot_exception_stack_end
    msr     spsel, #1
    mov     sp, x1
    msr     spsel, #0
    adrp    x1, boot_stack_end
    add     x1, x1, :lo12:boot_stack_end
    mov     sp, x1
    adrp    x0, vectors
    add     x0, x0, :lo12:vectors
    msr     vbar_el1, x0
    isb                             // an exception from here on finds the vectors

    adrp    x23, boot_record
    add     x23, x23, :lo12:boot_record
    stp     x19, x20, [x23, #{BOOT_DEVICE_TREE}]
    stp     x21, x22, [x23, #{BOOT_COUNTER}]
    mov     x29, xzr                // frame records end here
    mov     x30, xzr
    mov     x0, x23
    bl      build_identity_map
    add     x24, x23, #{BOOT_TRANSLATION}
    ldp     x25, x26, [x24]
    ldp     x27, x28, [x24, #16]
    ldr     x4, [x24, #32]

    // Everything from the read-only data to the end of the image was, or may have been, written past the caches. Lines
    // that were fetched into them before then would hide it as soon as the MMU is on.
    adrp    x0, rodata_start
    adrp    x1, image_end
    bl      invalidate_to_poc

    mov     x0, x25
    mov     x1, x26
    mov     x2, x27
    mov     x3, x28
    bl      switch_translation
    mov     x0, x23
    bl      identity_main           // does not return
    brk     #0

// Counts instructions on event counter 0 where there is one. Clobbers x0.
start_counting:
    mrs     x0, id_aa64dfr0_el1
    ubfx    x0, x0, #8, #4          // PMUVer: 0 none, 15 not the architecture's
    cbz     x0, 2f
    cmp     x0, #15
    b.eq    2f
    mrs     x0, pmcr_el0
    tst     x0, #(0x1f << 11)       // N: event counters that EL1 has
    b.eq    2f
    mov     x0, #0x08               // INST_RETIRED
    movk    x0, #0x4000, lsl #16    // U: not at EL0
    msr     pmevtyper0_el0, x0
    msr     pmevcntr0_el0, xzr
    mov     x0, #1
    msr     pmcntenset_el0, x0
    mrs     x0, pmcr_el0
    orr     x0, x0, #1              // E
    msr     pmcr_el0, x0
    isb                             // counting has begun before what is to be counted
2:  ret
