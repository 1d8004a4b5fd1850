// One stack for each CPU, above a page that no map holds, so that one that runs out faults at once; and the stacks of
// the exceptions that then come.

    .section .bss.monitor_stacks, "aw", %nobits
    .balign 4096
    .global monitor_stacks_start
monitor_stacks_start:
    .space  {CPUS} * {STACK_STRIDE}

    .section .bss.monitor_emergency, "aw", %nobits
    .balign 4096
    .global monitor_emergency_stacks
monitor_emergency_stacks:
    .space  {CPUS} << {EMERGENCY_SHIFT}
