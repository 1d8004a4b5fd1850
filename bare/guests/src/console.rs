//! Lines on QEMU's UART.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hardware::lock::Lock;
use hardware::pl011::Pl011;

/// Where QEMU's virt machine has it.
pub const UART: usize = 0x0900_0000;

/// The same, for what ends before there is Rust.
// SAFETY: no other symbol of a program has this name.
#[unsafe(export_name = "first_uart")]
static FIRST_UART: u64 = UART as u64;

/// What is added to a device's address to reach it.
static OFFSET: AtomicUsize = AtomicUsize::new(0);

/// From now on devices are reached `offset` bytes above their addresses.
pub fn set_offset(offset: u64) {
    OFFSET.store(offset as usize, Ordering::Relaxed);
}

/// Held while a line is written, once CPUs take turns.
static LINE: Lock<()> = Lock::new(());
static TAKES_TURNS: AtomicBool = AtomicBool::new(false);

/// From now on CPUs print one at a time. Their MMUs are on: without, no lock need work.
pub fn take_turns() {
    TAKES_TURNS.store(true, Ordering::Relaxed);
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
    // SAFETY: it is Device memory, as the MMU is off or the map has it so; the program runs on QEMU's virt machine.
    let uart = unsafe { Pl011::new(UART + OFFSET.load(Ordering::Relaxed)) };
    // `Output` never fails.
    let write = || _ = Output(uart).write_fmt(format_args!("{line}\n"));
    if TAKES_TURNS.load(Ordering::Relaxed) {
        // A guest may end from a handler, while this CPU is in the middle of a line.
        LINE.with_at_the_end(|()| write());
    } else {
        write();
    }
}
