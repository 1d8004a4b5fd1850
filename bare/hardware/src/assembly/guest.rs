//! The assembly of our own guests: it runs at EL1, with the MMU off until a guest turns it on.

use core::arch::global_asm;
use core::mem::{offset_of, size_of};

use crate::guest::translating::Frame;
use crate::guest::{CPUS, STACK_BYTES};
use crate::translation::Translation;

global_asm!(
    include_str!("../asm/header.s"),
    include_str!("../asm/guest/entry.s"),
    CPUS = const CPUS,
    STACK_SHIFT = const STACK_BYTES.ilog2(),
);
global_asm!(
    include_str!("../asm/frame.s"),
    include_str!("../asm/guest/translating.s"),
    FRAME_BYTES = const size_of::<Frame>(),
    TRANSLATION_SCTLR = const offset_of!(Translation, sctlr),
);
