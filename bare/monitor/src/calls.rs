//! The guest's calls to firmware, by SMC or HVC: the monitor is the firmware.

use hardware::el2::exit::{Exit, cpu_index};
use hardware::interrupts;
use hardware::psci::Conduit;
use moncore::call::{self, Call, Monitor, Psci};
use moncore::counts::Event;

use crate::cpus::{self, COUNTS};
use crate::{conflicts, finish, realm, ring};

/// Answers a call. The guest goes on behind it.
pub(crate) fn handle(exit: &mut Exit, immediate: u32, conduit: Conduit) {
    if conduit == Conduit::Smc
        && immediate == 0
        && let Some(answer) = realm::answer(&exit.frame.registers)
    {
        exit.frame.registers[..answer.len()].copy_from_slice(&answer);
        return;
    }
    let arguments = core::array::from_fn(|index| exit.frame.registers[index]);
    let decoded = Call::decode(immediate, &arguments);
    let event = if decoded == Call::Unknown { Event::UnknownCall } else { Event::Call };
    COUNTS.add(cpu_index(), event);
    if let Call::Monitor(Monitor::BeginResize(..)) = decoded {
        COUNTS.add(cpu_index(), Event::Resize);
    }
    let answer: &[u64] = match decoded {
        Call::Psci(function) => &[psci(function)],
        Call::ConventionVersion => &[realm::convention_version()],
        Call::ConventionFeatures(function) => &[Call::convention_feature(function)],
        Call::Monitor(Monitor::Uid) => &call::UID,
        Call::Monitor(Monitor::Revision) => &call::REVISION,
        Call::Monitor(Monitor::BeginResize(start, end)) => &[noted(conflicts::note_resize(start, end, true))],
        Call::Monitor(Monitor::EndResize(start, end)) => &[noted(conflicts::note_resize(start, end, false))],
        Call::Monitor(Monitor::Features) => &[if cpus::traps_tlbi() { call::ENDS_CONFLICTS } else { 0 }],
        Call::Monitor(Monitor::PrintRing(address)) => &[ring::print(address)],
        Call::Monitor(Monitor::Exit(status)) => finish::power_off(status),
        Call::Unknown => &[call::NOT_SUPPORTED],
    };
    exit.frame.registers[..answer.len()].copy_from_slice(answer);
}

fn noted(is_noted: bool) -> u64 {
    if is_noted { call::SUCCESS } else { call::INVALID_PARAMETERS }
}

fn psci(function: Psci) -> u64 {
    match function {
        Psci::Version => call::PSCI_VERSION,
        Psci::CpuSuspend => {
            // A state that keeps everything is what any request may be lowered to (DEN 0022, 5.4.4).
            interrupts::wait();
            call::SUCCESS
        }
        Psci::CpuOff => cpus::switch_off(),
        Psci::CpuOn { affinity, entry, argument } => cpus::switch_on(affinity, entry, argument),
        Psci::AffinityInfo { affinity, level } => cpus::info(affinity, level),
        Psci::MigrateInfoType => call::NO_TRUSTED_OS,
        Psci::SystemOff => finish::power_off(0),
        Psci::SystemReset => finish::reset(),
        Psci::Features(function) => Call::psci_feature(function),
    }
}
