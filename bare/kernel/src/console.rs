//! Where the kernel's words go.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use common::console::{FALLBACK, flush as flush_uart, write};
use hardware::pl011::Pl011;
use hardware::registers;

use crate::locks::{Lock, order};

/// Whether the identity map has [`FALLBACK`].
static IS_GUESS_MAPPED: AtomicBool = AtomicBool::new(false);
static CONSOLE: Lock<Option<Pl011>> = Lock::new(order::CONSOLE, None);

/// Prints a line, whole, beside what other CPUs print.
macro_rules! say {
    ($($argument:tt)*) => { $crate::console::write_line(format_args!($($argument)*)) };
}
pub(crate) use say;

/// Whether the page at [`FALLBACK`] is mapped, for last words before there is a console. Gives back whether it was.
pub(crate) fn set_guess_mapped(is_mapped: bool) -> bool {
    let was_mapped = IS_GUESS_MAPPED.load(Ordering::Relaxed);
    IS_GUESS_MAPPED.store(is_mapped, Ordering::Relaxed);
    was_mapped
}

/// The console is the PL011 at this address from now on; none before the first call.
///
/// # Safety
///
/// The address leads to a PL011, mapped as Device memory, until the next call.
pub(crate) unsafe fn set(address: u64) {
    // SAFETY: the caller's promise.
    let uart = unsafe { Pl011::new(address as usize) };
    CONSOLE.with(|console| *console = Some(uart));
}

/// Prints a line.
pub(crate) fn write_line(line: fmt::Arguments) {
    CONSOLE.with(|console| write(*console, format_args!("{line}\n")));
}

/// Prints text that has its own line ends, while nobody else prints.
pub(crate) fn write_text(text: impl fmt::Display) {
    CONSOLE.with(|console| write(*console, format_args!("{text}")));
}

/// Bytes of a program's that are printed at once, interrupts masked.
const PART: usize = 128;

/// Prints bytes of a program's. Lines that are not long stay whole.
pub(crate) fn write_bytes(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let part = &bytes[..bytes.len().min(PART)];
        let line_end = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |end| end + 1);
        let (part, rest) = bytes.split_at(line_end);
        CONSOLE.with(|console| {
            if let Some(uart) = console {
                part.iter().for_each(|byte| uart.write_byte(*byte));
            }
        });
        bytes = rest;
    }
}

/// Prints a line even if the console's owner is stuck, or the MMU is off.
pub(crate) fn write_last_line(line: fmt::Arguments) {
    at_the_end(|console| write(console, format_args!("{line}\n")));
}

/// Waits until everything is out.
pub(crate) fn flush() {
    at_the_end(flush_uart);
}

fn at_the_end(body: impl FnOnce(Option<Pl011>)) {
    // With the MMU off a lock may not work, and nobody else runs.
    if registers::read_sctlr() & 1 == 0 {
        return body(Some(guess()));
    }
    let is_guess_mapped = IS_GUESS_MAPPED.load(Ordering::Relaxed);
    CONSOLE.with_at_the_end(|console| body(console.or_else(|| is_guess_mapped.then(guess))));
}

/// A console for last words. A wrong guess costs nothing but words that nobody would have heard.
fn guess() -> Pl011 {
    // SAFETY: with the MMU off all memory is Device memory, and later this is used while the page is mapped as such.
    // Where no PL011 is, the machine was about to end in silence.
    unsafe { Pl011::new(FALLBACK as usize) }
}
