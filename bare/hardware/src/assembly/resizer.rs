//! The resizer's assembly, beside the fuzzer's entry.

use core::arch::global_asm;
use core::mem::{offset_of, size_of};

use crate::resizer::Frame;
use crate::translation::Translation;

global_asm!(
    include_str!("../asm/resizer/vectors.s"),
    FRAME_BYTES = const size_of::<Frame>(),
    TRANSLATION_SCTLR = const offset_of!(Translation, sctlr),
);
