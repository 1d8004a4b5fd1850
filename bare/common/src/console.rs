//! Text on a UART.

use core::fmt::{self, Write};

use hardware::pl011::Pl011;

/// Where QEMU's virt machine has its UART: tried for last words before the device tree has told of one.
pub const FALLBACK: u64 = 0x0900_0000;

/// The same, for what ends before there is Rust (`say_and_stop.s`).
// SAFETY: no other symbol of a program has this name.
#[unsafe(export_name = "first_uart")]
static FIRST_UART: u64 = FALLBACK;

struct Output(Pl011);

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.0.write_byte(byte));
        Ok(())
    }
}

/// Prints to a UART, if there is one.
pub fn write(console: Option<Pl011>, text: fmt::Arguments) {
    if let Some(uart) = console {
        // `Output` never fails.
        let _ = Output(uart).write_fmt(text);
    }
}

/// Waits until everything is out.
pub fn flush(console: Option<Pl011>) {
    if let Some(uart) = console {
        uart.flush();
    }
}
