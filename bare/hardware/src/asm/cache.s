// Cache maintenance by address, usable with the MMU off and without a stack. Ranges are [x0, x1); each routine clobbers
// x0, x2, x3. The line size is CTR_EL0.DminLine (or IminLine): the smallest of all caches, so that no line is stepped
// over.

    .macro  line_size, to, shift
    mrs     \to, ctr_el0
    ubfx    \to, \to, #\shift, #4
    mov     x3, #4
    lsl     \to, x3, \to            // the field is log2 of words
    .endm

    .macro  for_each_line, operation, what
    sub     x3, x2, #1
    bic     x0, x0, x3
1:  \operation \what, x0
    add     x0, x0, x2
    cmp     x0, x1
    b.lo    1b
    .endm

    .section .text.identity, "ax"

// Both ends must be aligned to the largest line there is (2 KiB): a line that is shared loses its other half.
    .global invalidate_to_poc
invalidate_to_poc:
    line_size x2, 16
    dmb     sy                      // stores made past the caches are in memory before a line over them is dropped
    for_each_line dc, ivac
    dsb     sy                      // no later access hits a dropped line
    ret

    .global clean_to_poc
clean_to_poc:
    line_size x2, 16
    for_each_line dc, cvac
    dsb     sy                      // the data is in memory before whoever reads it past the caches is told to
    ret

    .text
    .global clean_and_invalidate_to_poc
clean_and_invalidate_to_poc:
    line_size x2, 16
    for_each_line dc, civac
    dsb     sy                      // later reads see memory
    ret

// The pair every write of instructions needs before they run: x4 keeps the start.
    .global make_fetchable
make_fetchable:
    mov     x4, x0
    line_size x2, 16
    for_each_line dc, cvau
    dsb     ish                     // the instructions are at the point of unification before any CPU fetches again
    mov     x0, x4
    line_size x2, 0
    for_each_line ic, ivau
    dsb     ish                     // no CPU keeps an old line
    isb                             // nor does this one keep an old instruction in its pipeline
    ret

// The same where instruction caches may have lines by other addresses.
    .global make_fetchable_everywhere
make_fetchable_everywhere:
    line_size x2, 16
    for_each_line dc, cvau
    dsb     ish                     // the instructions are at the point of unification before any CPU fetches again
    ic      ialluis
    dsb     ish                     // no CPU keeps an old line
    isb                             // nor does this one keep an old instruction in its pipeline
    ret
