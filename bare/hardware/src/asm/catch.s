// A call that comes back even if it faults.

    .text
// fn catch_faults(record: x0, body: x1, argument: x2) -> x0: 0 when the body returned, 1 when it faulted. The handler
// resumes at `catch_landing` with x0 = 1, x19 = record and the stack pointer of the call, and drops the body's frames.
    .global catch_faults
catch_faults:
    stp     x19, x20, [x0, #{CATCH_REGISTERS}]
    stp     x21, x22, [x0, #({CATCH_REGISTERS} + 16)]
    stp     x23, x24, [x0, #({CATCH_REGISTERS} + 32)]
    stp     x25, x26, [x0, #({CATCH_REGISTERS} + 48)]
    stp     x27, x28, [x0, #({CATCH_REGISTERS} + 64)]
    stp     x29, x30, [x0, #({CATCH_REGISTERS} + 80)]
    mov     x9, sp
    mrs     x10, daif
    stp     x9, x10, [x0, #{CATCH_STACK}]
    mrs     x9, tpidr_el1
    ldr     x10, [x9, #{PER_CPU_CATCH}]
    str     x10, [x0, #{CATCH_OUTER}]
    str     x0, [x9, #{PER_CPU_CATCH}]
    mov     x19, x0
    mov     x0, x2
    blr     x1
    mov     x0, #0
    .global catch_landing
catch_landing:
    mrs     x9, tpidr_el1
    ldr     x10, [x19, #{CATCH_OUTER}]
    str     x10, [x9, #{PER_CPU_CATCH}]
    mov     x9, x19
    ldp     x19, x20, [x9, #{CATCH_REGISTERS}]
    ldp     x21, x22, [x9, #({CATCH_REGISTERS} + 16)]
    ldp     x23, x24, [x9, #({CATCH_REGISTERS} + 32)]
    ldp     x25, x26, [x9, #({CATCH_REGISTERS} + 48)]
    ldp     x27, x28, [x9, #({CATCH_REGISTERS} + 64)]
    ldp     x29, x30, [x9, #({CATCH_REGISTERS} + 80)]
    ret
