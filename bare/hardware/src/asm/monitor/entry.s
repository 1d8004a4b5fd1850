// Where QEMU or a boot loader enters the monitor: the flat Image header of the arm64 boot protocol, and the way from
// there to Rust with EL2's MMU on. The kernel's entry.s tells why each step is there.
//
// x19-x23 live through this file:
//   x19 device tree   x20 exception level of entry   x22 load address   x23 the `Boot` record

    image_header monitor_header, .text.monitor_header, monitor_entry

    .section .text.identity, "ax"
monitor_entry:
    msr     daifset, #0xf           // there is no vector to take an interrupt with yet
    mov     x19, x0
    mrs     x20, CurrentEL
    lsr     x20, x20, #2
    msr     spsel, #1
    cmp     x20, #2
    b.ne    1f                      // there is nothing to prepare: Rust says so and ends the machine
    bl      prepare_el1
1:  ic      iallu
    dsb     nsh                     // the invalidation is complete before
    isb                             // anything further is fetched
    adrp    x22, image_start

    // Lines that a loader left dirty over bss would be evicted over what is written there from now on.
    adrp    x0, bss_start
    adrp    x1, image_end
    bl      invalidate_to_poc
    adrp    x0, bss_start
    adrp    x1, early_tables_start  // tables are written before they are read
2:  stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    stp     xzr, xzr, [x0], #16
    cmp     x0, x1
    b.lo    2b

    mov     x0, x22                 // the monitor runs at its physical address for good
    mov     x1, x22
    bl      relocate

    adrp    x1, monitor_stacks_start
    mov     x2, #{STACK_STRIDE}
    add     sp, x1, x2              // the first CPU's
    cmp     x20, #2
    b.ne    3f
    msr     tpidr_el2, xzr          // CPU 0
    bl      install_monitor
3:  adrp    x23, monitor_boot_record
    add     x23, x23, :lo12:monitor_boot_record
    stp     x19, x20, [x23, #{BOOT_DEVICE_TREE}]
    str     x22, [x23, #{BOOT_LOAD_ADDRESS}]
    mov     x29, xzr                // frame records end here
    mov     x30, xzr
    mov     x0, x23
    bl      build_monitor_map
    ldp     x25, x26, [x23, #{BOOT_TRANSLATION}]
    ldp     x27, x28, [x23, #({BOOT_TRANSLATION} + 16)]

    // What was written past the caches must not be hidden by lines fetched before then, once the MMU is on.
    adrp    x0, rodata_start
    adrp    x1, image_end
    bl      invalidate_to_poc

    mov     x0, x25
    mov     x1, x26
    mov     x2, x27
    mov     x3, x28
    bl      switch_el2
    mov     x0, x23
    bl      monitor_main            // does not return
    brk     #0

// Where PSCI CPU_ON starts another CPU: MMU off, x0 = physical address of its `StartRecord`, which the CPU that starts
// it has cleaned to the point of coherency. No stack until the MMU is on: its lines may be dirty in another's cache.
    .global monitor_secondary_entry
monitor_secondary_entry:
    msr     daifset, #0xf
    msr     spsel, #1
    mov     x19, x0
    bl      prepare_el1
    ldp     x20, x21, [x19, #{START_STACK}]
    msr     tpidr_el2, x21          // by which the vectors find this CPU's emergency stack
    bl      install_monitor
    ldp     x0, x1, [x19, #{START_TRANSLATION}]
    ldp     x2, x3, [x19, #({START_TRANSLATION} + 16)]
    bl      switch_el2
    mov     sp, x20
    mov     x0, x21
    mov     x29, xzr                // frame records end here
    mov     x30, xzr
    bl      monitor_secondary       // does not return
    brk     #0

// Makes the monitor's vectors this CPU's. Clobbers x0.
install_monitor:
    adrp    x0, monitor_vectors
    add     x0, x0, :lo12:monitor_vectors
    msr     vbar_el2, x0
    isb                             // an exception from here on finds them
    ret

// Changes how EL2 translates. Runs at an address that is its own physical address before and after.
//   x0 MAIR_EL2   x1 TCR_EL2   x2 TTBR0_EL2   x3 SCTLR_EL2, with M set
switch_el2:
    dsb     sy                      // the tables are written before anything walks them
    msr     mair_el2, x0
    msr     tcr_el2, x1
    msr     ttbr0_el2, x2
    // What the TLBs hold of this regime is from before reset.
    tlbi    alle2
    dsb     nsh                     // the invalidation is complete, or an old entry could be hit once the MMU is on
    isb                             // the registers above have their values before the first walk
    msr     sctlr_el2, x3
    isb                             // the next instruction is fetched through the new translation
    ret
