//! Accesses that stage 2 refuses: the guest is told what a bus that does not answer would tell it.

use hardware::el2::exit::{Exit, cpu_index};
use hardware::el2::guest::{Injected, inject};
use moncore::counts::Event;
use vmsa::FaultStatus;

use crate::conflicts;
use crate::console::say;
use crate::cpus::{COUNTS, REPORTED};
use crate::stage2::{self, Meaning};

/// DFSC and IFSC of a synchronous external abort, not on a walk.
const EXTERNAL_ABORT: u32 = 0b01_0000;
/// WnR and CM of a data abort's ISS.
const WRITE_AND_MAINTENANCE: u32 = 1 << 6 | 1 << 8;

/// Answers a stage-2 abort.
pub(crate) fn handle(exit: &mut Exit) {
    let syndrome = exit.syndrome();
    let page = exit.fault_page();
    match syndrome.fault() {
        Some(FaultStatus::TlbConflict) => conflicts::handle_stage2(),
        Some(FaultStatus::Translation(_)) => match stage2::meaning(page) {
            // Only what is armed is refused of memory that is there.
            Meaning::Present => conflicts::handle(exit, page),
            // A realm takes this one from the RMM (Arm DEN 0137, A5.2.3).
            Meaning::Shared => refuse(exit, Event::Shared, "shared memory, by its protected address"),
            // And this one from its host, which has nothing there (A5.2.6).
            Meaning::Private => refuse(exit, Event::Private, "private memory, by its unprotected address"),
            Meaning::Other => refuse(exit, Event::Refused, "nothing of the guest's"),
        },
        _ => refuse(exit, Event::Refused, "what may not be done there"),
    }
}

fn refuse(exit: &mut Exit, event: Event, what: &str) {
    let syndrome = exit.syndrome();
    let address = exit.frame.fault_address;
    let cpu = cpu_index();
    if COUNTS.add(cpu, event) < REPORTED {
        let instruction = exit.frame.return_address;
        let page = exit.fault_page();
        say!(
            "\nmonitor: cpu {cpu}: refused: {what}: {syndrome} (ESR_EL2 {:#x}), address {address:#x}, in the page at \
             intermediate address {page:#x}, by the instruction at {instruction:#x}",
            syndrome.bits(),
        );
    }
    let is_fetch = syndrome.is_instruction_abort();
    let specific = EXTERNAL_ABORT | if is_fetch { 0 } else { syndrome.specific() & WRITE_AND_MAINTENANCE };
    inject(exit, Injected::Abort { is_fetch, specific, address });
}
