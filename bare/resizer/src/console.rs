//! Lines on QEMU's UART, one at a time.

use core::fmt::{self, Write};

use hardware::lock::Lock;
use hardware::pl011::Pl011;

/// Where QEMU's virt machine has it.
pub(crate) const UART: usize = 0x0900_0000;

/// Held while a line is written. The MMU is on by then.
static LINE: Lock<()> = Lock::new(());

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
    // SAFETY: the map has it as Device memory at its own address; the program runs on QEMU's virt machine.
    let uart = unsafe { Pl011::new(UART) };
    // A conflict may end the machine while this CPU is in the middle of a line. `Output` never fails.
    let _ = LINE.with_at_the_end(|()| Output(uart).write_fmt(format_args!("{line}\n")));
}
