// Last words before there is Rust to say them: x0 is a text that a zero byte ends, the MMU is off. Where no PL011 is at the
// address that is assumed, the machine was about to end in silence.

    .section .text.identity, "ax"
    .global say_and_stop
say_and_stop:
    msr     daifset, #0xf
    mov     x1, #{UART}
1:  ldrb    w2, [x0], #1
    cbz     w2, 3f
2:  ldr     w3, [x1, #{UART_FLAGS}]
    tbnz    w3, #{UART_FULL_BIT}, 2b
    str     w2, [x1, #{UART_DATA}]
    b       1b
3:  wfi
    b       3b
