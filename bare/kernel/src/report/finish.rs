//! The end of the machine: with a status where the host can take one, and never in silence.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

use common::ending::{Ending, Way};
use hardware::psci::Conduit;
use hardware::{interrupts, per_cpu, registers};
use kerncore::command_line::Exit;

use crate::console::{self, say};
use crate::cpus::parking;
use crate::locks::checked;

/// What the host is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Every self-check passed.
    Passed = 0,
    /// One failed, or the kernel did.
    Failed = 1,
    /// The machine or what it was given cannot be used.
    BadInput = 2,
}

/// A monitor sees nothing of a semihosting call, so it is asked first where there is one; before the command line tells, there
/// is none.
static ENDING: Ending =
    Ending::new([Way::Monitor, Way::Semihosting, Way::Hvc, Way::Smc], [Way::Semihosting, Way::Hvc, Way::Smc]);

/// The number of the CPU that ends the machine, plus 1.
static SPEAKER: AtomicU32 = AtomicU32::new(0);

/// Chooses how the machine will be ended. Without this, where no device tree tells, every way is tried.
pub(crate) fn configure(exit: Option<Exit>, conduit: Option<Conduit>) {
    let by_exit: &[Way] = match exit {
        Some(Exit::Semihosting) => &[Way::Semihosting],
        Some(Exit::Monitor) => &[Way::Monitor, Way::Semihosting],
        Some(Exit::Psci) | None => &[],
    };
    let by_firmware: &[Way] = match conduit {
        None => &[Way::Hvc, Way::Smc],
        Some(Conduit::Hvc) => &[Way::Hvc],
        Some(Conduit::Smc) => &[Way::Smc],
    };
    ENDING.choose(by_exit.iter().chain(by_firmware).copied());
}

/// Whether the machine is ending, so that an exception is one way that did not work.
pub(crate) fn is_ending() -> bool {
    ENDING.has_begun()
}

/// Only the first CPU that comes here goes on: one report is readable, two at once are not. It ends the machine for
/// all.
pub(crate) fn claim_the_end() {
    // With the MMU off this CPU is alone, and a compare-exchange may not work.
    if registers::read_sctlr() & 1 == 0 {
        return;
    }
    checked::stop();
    // It reports, and answers nobody: who would park it must not wait.
    parking::leave(per_cpu::index());
    let this = per_cpu::index() as u32 + 1;
    if let Err(speaker) = SPEAKER.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed)
        && speaker != this
    {
        let _masks = interrupts::mask();
        loop {
            interrupts::wait();
        }
    }
}

/// Ends the machine.
pub(crate) fn finish(status: Status) -> ! {
    finish_with(status as u32)
}

/// Ends the machine with a program's status.
pub(crate) fn finish_with(status: u32) -> ! {
    let _masks = interrupts::mask();
    checked::stop();
    if !is_ending() {
        console::flush();
    }
    ENDING.end(status)
}

/// Ends the machine because of what it was given, with the one line that says so.
pub(crate) fn refuse(reason: core::fmt::Arguments) -> ! {
    say!("error: {reason}");
    say!("# verdict");
    say!("verdict: bad input ({reason})");
    finish(Status::BadInput)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    claim_the_end();
    if is_ending() {
        finish(Status::Failed);
    }
    match info.location() {
        Some(place) => console::write_last_line(format_args!("panic: {} at {place}", info.message())),
        None => console::write_last_line(format_args!("panic: {}", info.message())),
    }
    finish(Status::Failed)
}
