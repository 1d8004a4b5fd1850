//! The end of the machine, and what the monitor says then. It does not end in silence.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use common::ending::{Ending, Way};
use hardware::el2::exit::{self, OwnException};
use hardware::psci::Conduit;

use crate::console;
use crate::cpus;

/// Entered at EL1 there is firmware that HVC calls, or none at all.
static ENDING: Ending =
    Ending::new([Way::Semihosting, Way::Smc, Way::Hvc, Way::Monitor], [Way::Semihosting, Way::Smc, Way::Hvc]);
/// Whether the first CPU has come to EL2 with its MMU on: one that starts later may not have.
static IS_MMU_ON: AtomicBool = AtomicBool::new(false);

/// The exit status of a monitor that failed, or that cannot run what it was given.
const FAILED: u32 = 1;
const BAD_INPUT: u32 = 2;

/// From now on locks work, where the MMU is on.
pub(crate) fn note_mmu_on() {
    IS_MMU_ON.store(true, Ordering::Relaxed);
}

/// Chooses how the machine will be ended. Before that every way is tried.
pub(crate) fn configure(has_semihosting: bool) {
    ENDING.choose(has_semihosting.then_some(Way::Semihosting).into_iter().chain([Way::Smc, Way::Hvc]));
}

fn say_last(text: core::fmt::Arguments) {
    // Without the MMU a lock may not work.
    console::write_last(text, IS_MMU_ON.load(Ordering::Relaxed) && exit::is_mmu_on());
}

/// Ends the machine for a guest that asked for it, with the report of what it did.
pub(crate) fn power_off(status: u32) -> ! {
    tell_counts();
    ENDING.end(status)
}

/// Resets the machine for a guest that asked for it, with the report of what it did.
pub(crate) fn reset() -> ! {
    tell_counts();
    Conduit::Smc.system_reset();
    ENDING.end(FAILED)
}

fn tell_counts() {
    say_last(format_args!("\n# monitor\n{}", cpus::COUNTS.table(cpus::count())));
}

/// Ends the machine because of what it was given, with the one line that says so.
pub(crate) fn refuse(reason: core::fmt::Arguments) -> ! {
    say_last(format_args!("monitor: {reason}; the guest was not started\n"));
    ENDING.end(BAD_INPUT)
}

/// Called by the vectors: a mistake of the monitor's, or a way of ending that did not work.
pub(crate) fn report_own_exception(exception: &OwnException) -> ! {
    if ENDING.has_begun() {
        ENDING.end(FAILED)
    }
    let OwnException { kind, syndrome, instruction, address } = exception;
    say_last(format_args!(
        "\nmonitor: exception at EL2: {kind:?}, {syndrome} (ESR_EL2 {:#x}), instruction {instruction:#x}, address \
         {address:#x}\n",
        syndrome.bits(),
    ));
    ENDING.end(FAILED)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    match info.location() {
        Some(place) => say_last(format_args!("\nmonitor: panic: {} at {place}\n", info.message())),
        None => say_last(format_args!("\nmonitor: panic: {}\n", info.message())),
    }
    ENDING.end(FAILED)
}
