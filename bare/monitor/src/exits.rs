//! Every exception that brings the guest to EL2, and who answers it. None stops the monitor.

use hardware::el2::exit::{Exit, Kind, cpu_index};
use hardware::el2::guest::{Injected, inject};
use hardware::psci::Conduit;
use moncore::counts::Event;
use vmsa::ExceptionClass;

use crate::cpus::COUNTS;
use crate::{abort, calls, registers};

/// Called by the vectors.
pub(crate) fn handle(exit: &mut Exit) {
    // Interrupts and SErrors are not routed here: what comes all the same goes back unanswered, and is counted.
    if exit.kind != Kind::Synchronous {
        COUNTS.add(cpu_index(), Event::Other);
        return;
    }
    let syndrome = exit.syndrome();
    let immediate = syndrome.specific() & 0xffff;
    match syndrome.class() {
        ExceptionClass::HypervisorCall => calls::handle(exit, immediate, Conduit::Hvc),
        ExceptionClass::SecureMonitorCall => {
            // Unlike after an HVC, the return address is that of the SMC.
            exit.skip_instruction();
            calls::handle(exit, immediate, Conduit::Smc);
        }
        ExceptionClass::TrappedSystemInstruction => registers::handle(exit),
        ExceptionClass::DataAbortLowerEl | ExceptionClass::InstructionAbortLowerEl => abort::handle(exit),
        _ => {
            COUNTS.add(cpu_index(), Event::Other);
            inject(exit, Injected::Undefined);
        }
    }
}
