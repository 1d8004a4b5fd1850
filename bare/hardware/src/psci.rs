//! Firmware calls: starting CPUs and ending the machine.

use smccc::error::success_or_error_64;
pub use smccc::psci::Error as PsciError;
use smccc::{Call, Hvc, Smc, psci};
use vmsa::PhysAddr;

/// How firmware is called, by the device tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conduit {
    /// HVC.
    Hvc,
    /// SMC.
    Smc,
}

impl Conduit {
    /// Starts the CPU with this affinity at a physical address, with `argument` in x0. `function` is CPU_ON's
    /// identifier.
    ///
    /// # Safety
    ///
    /// What is at `entry` can run on a CPU with its MMU off, with that argument.
    pub unsafe fn cpu_on(self, function: u32, affinity: u64, entry: PhysAddr, argument: u64) -> Result<(), PsciError> {
        let mut arguments = [0; 17];
        arguments[..3].copy_from_slice(&[affinity, entry.bits(), argument]);
        success_or_error_64(match self {
            Self::Hvc => Hvc::call64(function, arguments)[0],
            Self::Smc => Smc::call64(function, arguments)[0],
        })
    }

    /// Switches this CPU off. Returns only if firmware refuses.
    pub fn cpu_off(self) -> PsciError {
        let refused = match self {
            Self::Hvc => psci::cpu_off::<Hvc>(),
            Self::Smc => psci::cpu_off::<Smc>(),
        };
        refused.err().unwrap_or(PsciError::InternalFailure)
    }

    /// What firmware says of a CPU: 0 on, 1 off, 2 about to be on.
    pub fn affinity_info(self, affinity: u64) -> Result<u64, PsciError> {
        let state = match self {
            Self::Hvc => psci::affinity_info::<Hvc>(affinity, psci::LowestAffinityLevel::All),
            Self::Smc => psci::affinity_info::<Smc>(affinity, psci::LowestAffinityLevel::All),
        };
        state.map(|state| state as u64)
    }

    /// Resets the machine. Returns only if firmware does not.
    pub fn system_reset(self) {
        let _refused = match self {
            Self::Hvc => psci::system_reset::<Hvc>(),
            Self::Smc => psci::system_reset::<Smc>(),
        };
    }

    /// Ends the machine. Returns only if firmware does not.
    pub fn system_off(self) {
        let _refused = match self {
            Self::Hvc => psci::system_off::<Hvc>(),
            Self::Smc => psci::system_off::<Smc>(),
        };
    }
}
