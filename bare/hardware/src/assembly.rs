//! Gathers the assembly files, and gives them the layout of the Rust structures they touch.

use core::arch::global_asm;

use crate::pl011;

global_asm!(include_str!("asm/cache.s"));
global_asm!(include_str!("asm/copy.s"));
global_asm!(include_str!("asm/el2.s"));
global_asm!(include_str!("asm/relocate.s"));
global_asm!(
    include_str!("asm/say_and_stop.s"),
    UART_DATA = const pl011::DATA,
    UART_FLAGS = const pl011::FLAGS,
    UART_FULL_BIT = const pl011::TRANSMIT_FULL.trailing_zeros(),
);

#[cfg(feature = "guest")]
mod guest;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(feature = "monitor")]
mod monitor;
