//! The assembly of our own guests: it runs at EL1 with the MMU off.

use core::arch::global_asm;

use crate::guest::{CPUS, STACK_BYTES};

global_asm!(
    include_str!("../asm/header.s"),
    include_str!("../asm/guest/entry.s"),
    CPUS = const CPUS,
    STACK_SHIFT = const STACK_BYTES.ilog2(),
);
