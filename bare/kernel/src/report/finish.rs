//! The end of the machine: with a status where the host can take one, and never in silence.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use hardware::psci::Conduit;
use hardware::{hypercall, interrupts, per_cpu, registers, semihosting};
use kerncore::command_line::Exit;

use crate::report::console::{self, say};

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

/// A way to end the machine, in the order in which they are tried: a monitor sees nothing of a semihosting call, so it is
/// asked first where there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Monitor,
    Semihosting,
    Hvc,
    Smc,
}

impl Way {
    const ALL: [Self; 4] = [Self::Monitor, Self::Semihosting, Self::Hvc, Self::Smc];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A bit for each way that may work. Nothing is known of a monitor before the command line tells of it.
static WAYS: AtomicU8 = AtomicU8::new(Way::Semihosting.bit() | Way::Hvc.bit() | Way::Smc.bit());
/// How many ways of ending have been tried. Loads and stores alone: this must work with the MMU off.
static TRIED: AtomicU8 = AtomicU8::new(0);

/// The number of the CPU that ends the machine, plus 1.
static SPEAKER: AtomicU32 = AtomicU32::new(0);

/// Chooses how the machine will be ended. Without this, where no device tree tells, every way is tried.
pub(crate) fn configure(exit: Option<Exit>, conduit: Option<Conduit>) {
    let by_exit = match exit {
        Some(Exit::Semihosting) => Way::Semihosting.bit(),
        Some(Exit::Monitor) => Way::Monitor.bit() | Way::Semihosting.bit(),
        Some(Exit::Psci) | None => 0,
    };
    let by_firmware = match conduit {
        None => Way::Hvc.bit() | Way::Smc.bit(),
        Some(Conduit::Hvc) => Way::Hvc.bit(),
        Some(Conduit::Smc) => Way::Smc.bit(),
    };
    WAYS.store(by_exit | by_firmware, Ordering::Relaxed);
}

/// Whether the machine is ending, so that an exception is one way that did not work.
pub(crate) fn is_ending() -> bool {
    TRIED.load(Ordering::Relaxed) != 0
}

/// Only the first CPU that comes here goes on: one report is readable, two at once are not. It ends the machine for
/// all.
pub(crate) fn claim_the_end() {
    // With the MMU off this CPU is alone, and a compare-exchange may not work.
    if registers::read_sctlr() & 1 == 0 {
        return;
    }
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
    let _masks = interrupts::mask();
    if !is_ending() {
        console::flush();
    }
    loop {
        let step = TRIED.load(Ordering::Relaxed);
        TRIED.store(step.saturating_add(1), Ordering::Relaxed);
        let Some(way) = Way::ALL.get(usize::from(step)) else {
            interrupts::wait();
            continue;
        };
        match way {
            _ if WAYS.load(Ordering::Relaxed) & way.bit() == 0 => {}
            Way::Monitor => hypercall::exit(status as u32),
            Way::Semihosting => semihosting::exit(status as u32),
            Way::Hvc => Conduit::Hvc.system_off(),
            Way::Smc => Conduit::Smc.system_off(),
        }
    }
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
