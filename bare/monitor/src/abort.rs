//! Accesses that stage 2 refuses: the guest is told what a bus that does not answer would tell it.

use hardware::el2::exit::{Exit, cpu_index};
use hardware::el2::guest::{Injected, inject};
use moncore::counts::Event;
use vmsa::{FaultStatus, PhysAddr};

use crate::console::say;
use crate::cpus::COUNTS;
use crate::{conflicts, memory};

/// Refusals of one CPU that are reported; all are counted.
pub(crate) const REPORTED: u64 = 8;

/// DFSC and IFSC of a synchronous external abort, not on a walk.
const EXTERNAL_ABORT: u32 = 0b01_0000;
/// WnR and CM of a data abort's ISS.
const WRITE_AND_MAINTENANCE: u32 = 1 << 6 | 1 << 8;

/// Answers a stage-2 abort.
pub(crate) fn handle(exit: &mut Exit) {
    let syndrome = exit.syndrome();
    let page = exit.fault_page();
    match syndrome.fault() {
        Some(FaultStatus::TlbConflict) => return conflicts::handle_stage2(),
        // Only what is armed is refused of the guest's own memory.
        Some(FaultStatus::Translation(_)) if memory::is_guests(PhysAddr::new(page)) => {
            return conflicts::handle(exit, page);
        }
        _ => {}
    }
    let address = exit.frame.fault_address;
    let cpu = cpu_index();
    if COUNTS.add(cpu, Event::Refused) < REPORTED {
        let instruction = exit.frame.return_address;
        say!(
            "\nmonitor: cpu {cpu}: refused: {syndrome} (ESR_EL2 {:#x}), address {address:#x}, in the page at \
             intermediate address {page:#x}, by the instruction at {instruction:#x}",
            syndrome.bits(),
        );
    }
    let is_fetch = syndrome.is_instruction_abort();
    let specific = EXTERNAL_ABORT | if is_fetch { 0 } else { syndrome.specific() & WRITE_AND_MAINTENANCE };
    inject(exit, Injected::Abort { is_fetch, specific, address });
}
