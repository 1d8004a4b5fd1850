//! Lines on QEMU's UART.

use core::fmt::{self, Write};

use hardware::pl011::Pl011;

/// Where QEMU's virt machine has it.
const UART: usize = 0x0900_0000;

struct Output(Pl011);

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.0.write_byte(byte));
        Ok(())
    }
}

/// Prints a line.
macro_rules! say {
    ($($argument:tt)*) => { $crate::console::write_line(format_args!($($argument)*)) };
}
pub(crate) use say;

/// Prints a line.
pub(crate) fn write_line(line: fmt::Arguments) {
    // SAFETY: the MMU is off, so this is Device memory; the program runs on QEMU's virt machine.
    let uart = unsafe { Pl011::new(UART) };
    // `Output` never fails.
    let _ = Output(uart).write_fmt(format_args!("{line}\n"));
}
