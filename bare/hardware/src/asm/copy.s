// memcpy, which the compiler calls where values are moved: mostly a few words, all on their boundaries. What is not goes the way of
// `memmove`, which asks more first. No access is unaligned: with the MMU off all memory is a device's.
//   x0 to   x1 from   x2 bytes
// Returns x0. Clobbers x3 to x8.
    .text
    .global memcpy
memcpy:
    orr     x3, x0, x1
    orr     x3, x3, x2
    tst     x3, #7
    b.eq    0f
    b       memmove
0:  mov     x4, x0
    tbz     x2, #3, 1f
    ldr     x5, [x1], #8
    str     x5, [x4], #8
1:  tbz     x2, #4, 2f
    ldp     x5, x6, [x1], #16
    stp     x5, x6, [x4], #16
2:  ands    x2, x2, #~31
    b.eq    4f
3:  ldp     x5, x6, [x1], #32
    ldp     x7, x8, [x1, #-16]
    stp     x5, x6, [x4], #32
    stp     x7, x8, [x4, #-16]
    subs    x2, x2, #32
    b.ne    3b
4:  ret
