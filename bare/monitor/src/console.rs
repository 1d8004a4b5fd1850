//! Where the monitor's words go: the guest's own UART, line by line.
//!
//! The guest may be in the middle of a line of its own; a line that comes while it runs therefore starts on a new one.

use core::fmt;

pub(crate) use common::console::FALLBACK;
use common::console::{flush, write};
use hardware::lock::Lock;
use hardware::pl011::Pl011;

static CONSOLE: Lock<Option<Pl011>> = Lock::new(None);

/// Prints a line, whole, beside what other CPUs' monitors print.
macro_rules! say {
    ($($argument:tt)*) => { $crate::console::write_text(format_args!("{}\n", format_args!($($argument)*))) };
}
pub(crate) use say;

/// The console is the PL011 at this address from now on.
///
/// # Safety
///
/// The address leads to a PL011, mapped as Device memory, for ever.
pub(crate) unsafe fn set(address: u64) {
    // SAFETY: the caller's promise.
    let uart = unsafe { Pl011::new(address as usize) };
    CONSOLE.with(|console| *console = Some(uart));
}

/// Prints text that has its own line ends, while no other CPU's monitor prints.
pub(crate) fn write_text(text: impl fmt::Display) {
    CONSOLE.with(|console| write(*console, format_args!("{text}")));
}

/// Prints text even if the console's owner is stuck, or the MMU is off, where a lock may not work.
pub(crate) fn write_last(text: fmt::Arguments, is_mmu_on: bool) {
    if is_mmu_on {
        return CONSOLE.with_at_the_end(|console| {
            write(*console, text);
            flush(*console);
        });
    }
    // SAFETY: with the MMU off all memory is Device memory; where no PL011 is, the machine was about to end in silence.
    let guess = unsafe { Pl011::new(FALLBACK as usize) };
    write(Some(guess), text);
    flush(Some(guess));
}
