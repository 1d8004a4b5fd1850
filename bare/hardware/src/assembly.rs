//! Gathers the assembly files, and gives them the layout of the Rust structures they touch.

use core::arch::global_asm;

global_asm!(include_str!("asm/cache.s"));
global_asm!(include_str!("asm/el2.s"));
global_asm!(include_str!("asm/relocate.s"));

#[cfg(feature = "guest")]
mod guest;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(feature = "monitor")]
mod monitor;
