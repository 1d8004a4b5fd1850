// The flat Image header of the arm64 boot protocol, at the start of every image of ours; it stands in front of the entry
// code that uses it. `image_size` comes from the linker script: with bss and the stacks, so that nothing is put over them.
    .macro  image_header name, section, entry
    .section \section, "ax"
    .global \name
\name:
    b       \entry
    .long   0
    .quad   0                       // text_offset: the image may start on any 2 MiB boundary
    .quad   image_size
    .quad   1 << 3                  // little-endian; page size unspecified; anywhere in memory
    .quad   0
    .quad   0
    .quad   0
    .ascii  "ARM\x64"
    .long   0
    .endm

