//! Lines on QEMU's UART.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicUsize, Ordering};

use hardware::pl011::Pl011;

/// Where QEMU's virt machine has it.
const UART: usize = 0x0900_0000;

/// What is added to a device's address to reach it.
static OFFSET: AtomicUsize = AtomicUsize::new(0);

/// From now on devices are reached `offset` bytes above their addresses.
pub fn set_offset(offset: u64) {
    OFFSET.store(offset as usize, Ordering::Relaxed);
}

struct Output(Pl011);

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.0.write_byte(byte));
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => { $crate::console::write_line(format_args!($($argument)*)) };
}

/// Prints a line.
pub fn write_line(line: fmt::Arguments) {
    // SAFETY: the MMU is off, so this is Device memory; the program runs on QEMU's virt machine.
    let uart = unsafe { Pl011::new(UART + OFFSET.load(Ordering::Relaxed)) };
    // `Output` never fails.
    let _ = Output(uart).write_fmt(format_args!("{line}\n"));
}
