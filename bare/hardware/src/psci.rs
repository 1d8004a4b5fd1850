//! Firmware calls: starting CPUs and ending the machine.

use smccc::psci::{self, Error};
use smccc::{Hvc, Smc};
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
    /// Starts the CPU with this affinity at a physical address, with `argument` in x0.
    ///
    /// # Safety
    ///
    /// What is at `entry` can run on a CPU with its MMU off, with that argument.
    pub unsafe fn cpu_on(self, affinity: u64, entry: PhysAddr, argument: u64) -> Result<(), Error> {
        match self {
            Self::Hvc => psci::cpu_on::<Hvc>(affinity, entry.bits(), argument),
            Self::Smc => psci::cpu_on::<Smc>(affinity, entry.bits(), argument),
        }
    }

    /// Ends the machine. Returns only if firmware does not.
    pub fn system_off(self) {
        let _refused = match self {
            Self::Hvc => psci::system_off::<Hvc>(),
            Self::Smc => psci::system_off::<Smc>(),
        };
    }
}
