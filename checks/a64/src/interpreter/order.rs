//! Which of a CPU's accesses and TLBIs come after which loads: an access that is ordered behind a load walks no earlier than
//! that, so it cannot miss what was settled then, and a TLBI ends what was. Moments are the machine's event numbers.
//! (DDI 0487, B2.3 dependencies; D8.2.6 for walks; FEAT_ETS2 orders faults behind all that is before them)

use machine::registers::Ets;

use crate::instruction::{Address, General, Instruction, Operand, When};

/// The orders of one CPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Order {
    /// For each register, the latest load that its value depends on.
    registers: [u64; 31],
    flags: u64,
    /// The latest load that a branch or an address depended on, or walk that saw what another CPU had stored: an ISB comes
    /// after it.
    controlled: u64,
    /// What every walk and TLBI from now on comes after.
    floor: u64,
    /// The latest access: with FEAT_ETS2, faults come after everything that is before them in program order.
    accessed: u64,
}

impl Order {
    fn of(&self, register: General) -> u64 {
        self.registers.get(usize::from(register.0)).copied().unwrap_or(0)
    }

    fn of_operand(&self, operand: &Operand) -> u64 {
        match operand {
            Operand::Immediate(_) => 0,
            Operand::Register { from, .. } => self.of(*from),
        }
    }

    fn of_address(&self, address: &Address) -> u64 {
        self.of(address.base).max(self.of_operand(&address.offset))
    }

    fn set(&mut self, register: General, moment: u64) {
        if let Some(place) = self.registers.get_mut(usize::from(register.0)) {
            *place = moment;
        }
    }

    /// An instruction that concerns registers alone.
    pub(super) fn follow(&mut self, instruction: &Instruction) {
        match instruction {
            Instruction::Compute { to, left, right, sets_flags, .. } => {
                let moment = self.of(*left).max(self.of_operand(right));
                self.set(*to, moment);
                if *sets_flags {
                    self.flags = moment;
                }
            }
            Instruction::Select { to, yes, no, .. } => self.set(*to, self.of(*yes).max(self.of(*no)).max(self.flags)),
            Instruction::Extract { to, from, keeps, .. } => {
                let kept = if *keeps { self.of(*to) } else { 0 };
                self.set(*to, self.of(*from).max(kept));
            }
            Instruction::Locate { to, .. } => self.set(*to, 0),
            Instruction::BranchWithLink { .. } => self.set(General::LINK, 0),
            Instruction::BranchTo { target, .. } => self.controlled = self.controlled.max(self.of(*target)),
            Instruction::Branch { when, .. } => {
                let tested = match when {
                    When::Always => 0,
                    When::Flag(_) => self.flags,
                    When::Zero(register, _) | When::NotZero(register, _) => self.of(*register),
                    When::Set(register, _) | When::Unset(register, _) => self.of(*register),
                };
                self.controlled = self.controlled.max(tested);
            }
            _ => {}
        }
    }

    /// The moment before which `instruction` does not walk (without FEAT_ETS2: unless it hits).
    pub(super) fn walk_floor(&self, instruction: &Instruction, ets: Ets) -> u64 {
        let floor = self.floor.max(address_of(instruction).map_or(0, |address| self.of_address(address)));
        if ets == Ets::None { floor } else { floor.max(self.accessed) }
    }

    /// The moment that a TLBI comes after, whose operand is in this register. A branch without an ISB orders none.
    pub(super) fn tlbi_floor(&self, operand: General) -> u64 {
        self.floor.max(self.of(operand))
    }

    /// A walk has seen what another CPU had stored; the machine's event is `now`.
    pub(super) fn walked(&mut self, now: u64) {
        self.controlled = now;
    }

    /// `instruction` has accessed memory; the machine's event is `now`.
    pub(super) fn accessed(&mut self, instruction: &Instruction, now: u64) {
        if let Some(address) = address_of(instruction) {
            self.controlled = self.controlled.max(self.of_address(address));
        }
        self.accessed = now;
        match instruction {
            Instruction::Load { to, .. } | Instruction::LoadLiteral { to, .. } | Instruction::Atomic { to, .. } => {
                self.set(*to, now);
            }
            Instruction::LoadPair { first, second, .. } => {
                self.set(*first, now);
                self.set(*second, now);
            }
            Instruction::CompareAndSwap { expected, .. } => self.set(*expected, now),
            Instruction::StoreExclusive { status, .. } => self.set(*status, 0),
            _ => {}
        }
    }

    /// MRS gives a value that depends on no load.
    pub(super) fn read_system(&mut self, to: General) {
        self.set(to, 0);
    }

    /// A context synchronization event: what was decided before it is certain.
    pub(super) fn synchronize(&mut self) {
        self.floor = self.floor.max(self.controlled);
    }

    /// Every moment in it, by what it comes after of `settled`: all that can still matter.
    pub(super) fn digest(&self, settled: &[u64]) -> Vec<u64> {
        let others = [self.flags, self.controlled, self.floor, self.accessed];
        let after = |moment: u64| {
            settled.iter().enumerate().filter(|(_, it)| **it <= moment).fold(0, |all, (at, _)| all | 1 << (at % 64))
        };
        if settled.is_empty() {
            return Vec::new();
        }
        self.registers.iter().chain(&others).map(|moment| after(*moment)).collect()
    }
}

fn address_of(instruction: &Instruction) -> Option<&Address> {
    match instruction {
        Instruction::Load { address, .. }
        | Instruction::Store { address, .. }
        | Instruction::LoadPair { address, .. }
        | Instruction::StorePair { address, .. }
        | Instruction::StoreExclusive { address, .. }
        | Instruction::Atomic { address, .. }
        | Instruction::CompareAndSwap { address, .. } => Some(address),
        _ => None,
    }
}
