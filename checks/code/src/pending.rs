//! Writes of system registers that no context synchronization event has followed: until one does, either value may be in
//! effect. The machine keeps its own account for walks; this one is for what the CPU itself does. (DDI 0487, D24.1.2.2)

use a64::registers::System;
use machine::registers::{HCR_E2H, Register, SCTLR_M};

/// SCTLR_EL1.A and EE: alignment checks, and the byte order of data.
const SCTLR_DATA: u64 = 1 << 1 | 1 << 25;

/// The registers of one CPU that are not certain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pending {
    /// Register, value before, value after; in program order.
    writes: Vec<(System, u64, u64)>,
}

/// What takes effect by itself, or is read by nothing but other instructions of the same CPU in program order.
const fn needs_no_synchronization(register: System) -> bool {
    match register {
        System::Return(_) | System::SavedState(_) | System::Stack(_) | System::Masks | System::StackSelect => true,
        System::Syndrome(_) | System::FaultAddress(_) | System::FaultIntermediate => true,
        // TPIDR_EL0, TPIDRRO_EL0, TPIDR_EL1, TPIDR_EL2: CRn is 13, op2 at least 2.
        System::Other(encoding) => encoding.0 >> 7 & 15 == 13 && encoding.0 & 7 >= 2,
        _ => false,
    }
}

impl Pending {
    /// MSR.
    pub fn write(&mut self, register: System, before: u64, after: u64) {
        if !needs_no_synchronization(register) {
            self.writes.push((register, before, after));
        }
    }

    /// A context synchronization event.
    pub fn synchronize(&mut self) {
        self.writes.clear();
    }

    /// Every value that `register` may have, whose newest is `now`.
    fn values(&self, register: System, now: u64) -> impl Iterator<Item = u64> + '_ {
        let its = self.writes.iter().filter(move |it| it.0 == register);
        its.flat_map(|it| [it.1, it.2]).chain([now])
    }

    /// Whether the MMU may be on, and whether it may be off, with SCTLR_EL1 as it is `now`.
    pub fn mmu(&self, now: u64) -> (bool, bool) {
        let register = System::Translation(Register::SctlrEl1);
        let is_on = |value: u64| value & SCTLR_M != 0;
        (self.values(register, now).any(is_on), self.values(register, now).any(|it| !is_on(it)))
    }

    /// A value of SCTLR_EL1 with the MMU on, if there may be one.
    pub fn with_mmu(&self, now: u64) -> Option<u64> {
        self.values(System::Translation(Register::SctlrEl1), now).find(|value| value & SCTLR_M != 0)
    }

    /// True when data may be read in the other byte order, or with alignment checks or without.
    pub fn has_uncertain_data(&self, now: u64) -> bool {
        self.values(System::Translation(Register::SctlrEl1), now).any(|value| (value ^ now) & SCTLR_DATA != 0)
    }

    /// True when the names of EL1's registers may mean those of EL2.
    pub fn may_redirect(&self, now: u64) -> bool {
        self.values(System::Translation(Register::HcrEl2), now).any(|value| value & HCR_E2H != 0)
    }

    /// The first register that is not certain.
    pub fn first(&self) -> Option<System> {
        self.writes.iter().find(|(_, before, after)| before != after).map(|it| it.0)
    }

    /// True when `register` is not certain.
    pub fn has(&self, register: System) -> bool {
        self.writes.iter().any(|(it, before, after)| *it == register && before != after)
    }
}
