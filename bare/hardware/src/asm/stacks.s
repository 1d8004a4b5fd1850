// The stacks of the boot CPU until the high half, above everything else in bss: they are free memory then. The linker script leaves
// 64 KiB beneath them that the identity map does not hold, so that one that runs out faults at once.

    .section .boot_stacks, "aw", %nobits
    .balign 16
    .space  {BOOT_STACK_BYTES}
    .global boot_stack_end
boot_stack_end:
    .space  {BOOT_EXCEPTION_STACK_BYTES}
    .global boot_exception_stack_end
boot_exception_stack_end:
    .space  {BOOT_EMERGENCY_STACK_BYTES}
    .global boot_emergency_stack_end
boot_emergency_stack_end:
