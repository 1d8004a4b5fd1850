// The registers of an interrupted program that every handler saves: x2 to x29, in the frame that SP, or another register, points
// to and that begins with x0 and x1.

    .macro  save_x2_to_x29, base=sp
    stp     x2, x3, [\base, #16]
    stp     x4, x5, [\base, #32]
    stp     x6, x7, [\base, #48]
    stp     x8, x9, [\base, #64]
    stp     x10, x11, [\base, #80]
    stp     x12, x13, [\base, #96]
    stp     x14, x15, [\base, #112]
    stp     x16, x17, [\base, #128]
    stp     x18, x19, [\base, #144]
    stp     x20, x21, [\base, #160]
    stp     x22, x23, [\base, #176]
    stp     x24, x25, [\base, #192]
    stp     x26, x27, [\base, #208]
    stp     x28, x29, [\base, #224]
    .endm

    .macro  restore_x2_to_x29, base=sp
    ldp     x28, x29, [\base, #224]
    ldp     x26, x27, [\base, #208]
    ldp     x24, x25, [\base, #192]
    ldp     x22, x23, [\base, #176]
    ldp     x20, x21, [\base, #160]
    ldp     x18, x19, [\base, #144]
    ldp     x16, x17, [\base, #128]
    ldp     x14, x15, [\base, #112]
    ldp     x12, x13, [\base, #96]
    ldp     x10, x11, [\base, #80]
    ldp     x8, x9, [\base, #64]
    ldp     x6, x7, [\base, #48]
    ldp     x4, x5, [\base, #32]
    ldp     x2, x3, [\base, #16]
    .endm
