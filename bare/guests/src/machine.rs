//! The machine that a guest finds, and how it ends.

use core::slice;

use hardware::registers::read_affinity;
use hardware::{guest, hypercall, interrupts};
use kerncore::devicetree::{self, MachineDescription};
use kerncore::finding::Findings;

use crate::say;

/// Reads the device tree that the boot protocol has at this address.
///
/// # Safety
///
/// A device tree is there, whose header says how long it is, and nothing ever writes it.
pub unsafe fn read(device_tree: u64) -> MachineDescription<'static> {
    // SAFETY: the caller's promise.
    let header = unsafe { (device_tree as *const [u8; 8]).read() };
    let bytes = devicetree::claimed_size_bytes(&header).unwrap_or(0);
    // SAFETY: the caller's promise.
    let blob = unsafe { slice::from_raw_parts(device_tree as *const u8, bytes as usize) };
    let (mut machine, mut findings) = (MachineDescription::new(), Findings::new());
    devicetree::read(blob, &mut machine, &mut findings);
    machine
}

/// Starts every other CPU, and gives the number of all that run.
///
/// # Safety
///
/// No other CPU has been started.
pub unsafe fn start_others(machine: &MachineDescription) -> usize {
    let mut cpus = 1;
    for cpu in machine.cpus.iter().filter(|cpu| cpu.affinity != read_affinity()).take(guest::CPUS - 1) {
        // SAFETY: the number is new.
        cpus += usize::from(unsafe { guest::start(cpus, cpu.affinity) }.is_ok());
    }
    cpus
}

/// Ends the machine with a verdict on `checks` checks, of which `failed` failed.
pub fn end(checks: usize, failed: usize) -> ! {
    say!("# verdict");
    match failed {
        0 => say!("verdict: passed ({checks} checks)"),
        _ => say!("verdict: failed ({failed} of {checks} checks)"),
    }
    hypercall::exit((failed != 0).into());
    rest()
}

/// Waits for ever.
pub fn rest() -> ! {
    loop {
        interrupts::wait();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    say!("panic: {}", info.message());
    hypercall::exit(1);
    rest()
}
