//! The fuzzer's assembly: it runs at EL1 with the MMU off.

use core::arch::global_asm;

use crate::fuzzer::{CPUS, STACK_BYTES};

global_asm!(
    include_str!("../asm/fuzzer/entry.s"),
    CPUS = const CPUS,
    STACK_SHIFT = const STACK_BYTES.ilog2(),
);
