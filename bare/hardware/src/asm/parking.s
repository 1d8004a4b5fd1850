// Parking: a CPU that must not meet a change of the kernel's tables waits off them. It runs at physical addresses, walks tables
// that map the identity text and the board alone, and its TLB holds nothing else. To spin where it was would not do: a CPU
// may walk by speculation for any address, whatever it executes.

// Parks this CPU for as long as the first word at x0, the ticket, is not 0. The second word is the ticket that this CPU has seen
// since it was off the tables: one that has not yet seen a round end is parked in the next one too. Exceptions are masked.
//   x0 physical address of this CPU's line on the board   x1 physical address of `parked`
//   x2 TTBR0_EL1 and x3 TTBR1_EL1 meanwhile: the identity map, and a table that maps nothing
// Clobbers x4 to x9, x16.
    .text
    .global park
park:
    mrs     x4, ttbr0_el1
    mrs     x5, ttbr1_el1
    mrs     x6, vbar_el1
    adr     x7, 1f
    msr     ttbr0_el1, x2
    isb                             // the jump is fetched through the identity map
    br      x1
1:  msr     ttbr0_el1, x4
    isb                             // the caller's lower half is back before anything uses it
    ret

// Wakes CPUs that wait for an event. No arguments; clobbers nothing.
    .global send_event
send_event:
    dsb     ishst                   // an event that overtook a store would wake nobody for good: who finds nothing new waits on
    sev
    ret

    .section .text.identity, "ax"
    .global parked
parked:
    adr     x16, parked_vectors
    msr     vbar_el1, x16           // an exception must not be fetched through tables that are gone
    msr     ttbr1_el1, x3
    isb                             // no walk of the kernel's tables begins from here on
    // What the TLB holds of the kernel's tables may change size without this CPU hearing of it in time.
    tlbi    vmalle1
    dsb     nsh                     // it is gone before the word says so
    isb                             // this CPU itself is sure of that
    add     x9, x0, #8
1:  ldr     x8, [x0]
    cbz     x8, 2f
    stlr    x8, [x9]                // a plain store may be seen ahead of accesses by the tables, which are to come before the change
    wfe                             // an event follows once this CPU sees the store that lets it go
    b       1b
2:  msr     ttbr1_el1, x5
    msr     vbar_el1, x6
    isb                             // the way back is fetched through the kernel's tables
    br      x7

// Masked as this CPU is, a synchronous exception or an end of the machine may come: the kernel's vectors tell of it, with the
// kernel's tables back.
    .macro  parked_vector, index
    .balign 0x80
    add     x16, x6, #(\index * 0x80)
    b       leave_to_vector
    .endm

    .balign 0x800
    .global parked_vectors
parked_vectors:
    .irp    index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    parked_vector \index
    .endr

leave_to_vector:
    msr     ttbr1_el1, x5
    msr     vbar_el1, x6
    isb                             // the vector is fetched through the kernel's tables
    br      x16
