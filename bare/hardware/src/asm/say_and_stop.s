// Last words before there is Rust to say them: x0 is a text that a zero byte ends, the MMU is off. The program says in `first_uart`
// where it takes a PL011 to be; where none is, the machine was about to end in silence.

    .section .text.identity, "ax"
    .global say_and_stop
say_and_stop:
    msr     daifset, #0xf
    adrp    x1, first_uart
    ldr     x1, [x1, :lo12:first_uart]
1:  ldrb    w2, [x0], #1
    cbz     w2, 3f
2:  ldr     w3, [x1, #{UART_FLAGS}]
    tbnz    w3, #{UART_FULL_BIT}, 2b
    str     w2, [x1, #{UART_DATA}]
    b       1b
3:  wfi
    b       3b
