//! Text on a UART.

use core::fmt::{self, Write};

pub use hardware::pl011::FALLBACK;
use hardware::pl011::Pl011;

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
