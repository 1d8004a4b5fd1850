// Writes every absolute address in the image's data for an image that is to run at one address while it lies at
// another. The addends are in the relocations (RELA), so this may be done again for another address.
//   x0 the address that `image_start` will have when it runs   x1 the address it can be written at now
// Clobbers x2-x8. Only data is written: code is position independent, and is mapped read-only when this runs again.

    .section .text.identity, "ax"
    .global relocate
relocate:
    adrp    x2, link_address
    ldr     x2, [x2, :lo12:link_address]
    sub     x0, x0, x2              // link address to running address
    sub     x1, x1, x2              // link address to where it lies
    adrp    x3, relocations_start
    add     x3, x3, :lo12:relocations_start
    adrp    x4, relocations_end
    add     x4, x4, :lo12:relocations_end
1:  cmp     x3, x4
    b.hs    2f
    ldp     x5, x6, [x3], #16       // r_offset, r_info
    ldr     x7, [x3], #8            // r_addend
    cmp     w6, #1027               // R_AARCH64_RELATIVE: the only one that a static link leaves
    b.ne    unexpected_relocation
    add     x7, x7, x0
    str     x7, [x5, x1]
    b       1b
2:  ret

unexpected_relocation:              // a mistake of the build, seen by its first boot
    adr     x0, unexpected_relocation_text
    b       say_and_stop
unexpected_relocation_text:
    .asciz  "\nvellum: the image has a relocation other than R_AARCH64_RELATIVE; the machine stops\n"

    .balign 8
    .global link_address
link_address:
    .quad   IMAGE_BASE
