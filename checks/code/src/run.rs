//! Executes the kernel's machine code on the simulated machine, one CPU at a time. Each fetch, load and store translates
//! through what TLBs may hold, and must have one answer only; after each instruction the rules must be silent.

use std::collections::BTreeSet;

use a64::decode::decode;
use a64::instruction::{General, Instruction, Width};
use a64::interpreter::{Access, State, par};
use a64::registers::System;
use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Level;
use machine::machine::{Machine, Outcome, Way};
use machine::registers::{Register, SCTLR_M};
use machine::syndrome::{AccessKind, Fault, FaultKind};

use crate::caches::Caches;
use crate::finding::{self, Finding, Found};
use crate::kernel::Kernel;
use crate::pending::Pending;

/// Instructions of one run, at most: more is an endless loop.
const MOST_STEPS: u64 = 200_000;

/// Where a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// At one of the addresses that it was to stop at.
    Reached(u64),
    /// At WFI or WFE.
    Waits,
    /// At HVC or SMC.
    Calls,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run<'k> {
    kernel: &'k Kernel,
    /// CPUs and machine.
    pub state: State,
    pub(crate) pending: Vec<Pending>,
    /// Caches, as far as they can be in the way.
    pub caches: Caches,
    /// Whether each CPU has stored since a DSB that waits for its stores.
    pub(crate) has_stored: Vec<bool>,
    /// Registers that the CPUs lack: an access to one is undefined.
    pub lacking: Vec<System>,
    /// Physical addresses of the instructions that were executed.
    pub visited: BTreeSet<u64>,
    /// Instructions that were executed.
    pub steps: u64,
    /// AT instructions among them.
    pub translations: u64,
    /// Something beneath keeps what is to be forgotten: each AT is a TLB conflict.
    pub conflicts_for_ever: bool,
}

impl<'k> Run<'k> {
    /// A run of `kernel` on these CPUs.
    pub fn new(kernel: &'k Kernel, state: State) -> Self {
        let pending = vec![Pending::default(); state.cores().len()];
        let has_stored = vec![false; state.cores().len()];
        Self {
            kernel,
            state,
            pending,
            caches: Caches::default(),
            has_stored,
            lacking: Vec::new(),
            visited: BTreeSet::new(),
            steps: 0,
            translations: 0,
            conflicts_for_ever: false,
        }
    }

    /// Sets a general-purpose register.
    pub fn set(&mut self, cpu: usize, register: u8, value: u64) {
        self.state.core_mut(cpu).set_general(General(register), Width::Double, value);
    }

    /// A general-purpose register.
    pub fn get(&self, cpu: usize, register: u8) -> u64 {
        self.state.cores()[cpu].general(General(register))
    }

    /// Gives `cpu` the value of a system register that has no effect on translation.
    pub fn set_system(&mut self, cpu: usize, name: &str, value: u64) {
        if let Some(system) = System::named(name) {
            self.state.core_mut(cpu).set_system(system, value);
        }
    }

    /// A system register that has no effect on translation.
    pub fn get_system(&self, cpu: usize, name: &str) -> u64 {
        System::named(name).map_or(0, |system| self.state.cores()[cpu].system(system))
    }

    /// A translation register, newest value.
    pub fn register(&self, cpu: usize, register: Register) -> u64 {
        self.machine().cpus()[cpu].newest_registers().get(register)
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        self.state.machine()
    }

    /// Runs `cpu` from `entry` until one of `ends`, which can be fetched but is not executed. Errors: the first finding.
    pub fn run(&mut self, cpu: usize, entry: u64, ends: &[u64]) -> Result<Stop, Found> {
        self.state.core_mut(cpu).go_to(entry);
        self.go_on(cpu, ends)
    }

    /// The same, from where `cpu` is. Errors: the first finding.
    pub fn go_on(&mut self, cpu: usize, ends: &[u64]) -> Result<Stop, Found> {
        loop {
            if let Some(stop) = self.step(cpu, ends)? {
                return Ok(stop);
            }
        }
    }

    /// Executes one instruction, unless it is one to stop at: so that CPUs can take turns. Errors: a finding.
    pub fn step(&mut self, cpu: usize, ends: &[u64]) -> Result<Option<Stop>, Found> {
        let place = self.state.cores()[cpu].place();
        self.try_step(cpu, ends).map_err(|finding| self.found(cpu, place, finding))
    }

    /// A finding of `cpu` at `place`.
    pub fn found(&self, cpu: usize, place: u64, finding: Finding) -> Found {
        let (name, offset) = self.kernel.name(place);
        let name = if offset == 0 { name.to_owned() } else { format!("{name}+{offset:#x}") };
        Found { cpu, place, name, finding }
    }

    fn try_step(&mut self, cpu: usize, ends: &[u64]) -> Result<Option<Stop>, Finding> {
        let place = self.state.cores()[cpu].place();
        let physical = self.translate(cpu, place, AccessKind::Fetch).map_err(Finding::Fetch)?;
        self.caches.fetch(physical).map_err(Finding::Cache)?;
        if ends.contains(&place) {
            return Ok(Some(Stop::Reached(place)));
        }
        let word = (self.machine().word(physical & !7) >> (8 * (physical & 4))) as u32;
        let unknown = || Finding::Unknown(format!("{word:#010x} is no instruction that is known here"));
        let instruction = decode(word, place).ok_or_else(unknown)?;
        self.steps += 1;
        self.visited.insert(physical);
        if self.steps > MOST_STEPS {
            return Err(Finding::End(format!("no end after {MOST_STEPS} instructions")));
        }
        match instruction {
            Instruction::Wait => return Ok(Some(Stop::Waits)),
            Instruction::MonitorCall { .. } | Instruction::Call { .. } => {
                self.state.execute(cpu, &Instruction::Nothing);
                return Ok(Some(Stop::Calls));
            }
            Instruction::Break { number } => return Err(Finding::End(format!("BRK #{number}"))),
            _ => self.execute(cpu, &instruction)?,
        }
        match self.state.take_findings().into_iter().find(|finding| !finding.is_lint()) {
            Some(finding) => Err(Finding::Rule(Box::new(finding))),
            None => Ok(None),
        }
    }

    fn execute(&mut self, cpu: usize, instruction: &Instruction) -> Result<(), Finding> {
        if let Instruction::ReadSystem { register, .. } | Instruction::WriteSystem { register, .. } = instruction
            && self.lacking.contains(register)
        {
            return self.undefined(cpu, *register);
        }
        self.check_registers(cpu, instruction)?;
        if let Some(access) = self.state.target(cpu, instruction) {
            let way = self.way(cpu, &access)?;
            self.look_up(cpu, &access, &way)?;
            self.has_stored[cpu] |= access.kind == AccessKind::Write;
            self.state.go(cpu, instruction, &access, &way);
            return Ok(());
        }
        match instruction {
            Instruction::WriteSystem { register, from } => {
                let (before, after) = (self.system(cpu, *register), self.state.cores()[cpu].general(*from));
                self.pending[cpu].write(*register, before, after);
                if *register == System::Translation(Register::SctlrEl1) && after & SCTLR_M != 0 {
                    self.caches.walk().map_err(Finding::Cache)?;
                }
            }
            Instruction::Barrier(barrier) => {
                self.caches.barrier(cpu, *barrier).map_err(Finding::Cache)?;
                match *barrier {
                    Barrier::Isb => self.pending[cpu].synchronize(),
                    Barrier::Dsb { domain, accesses, .. } => {
                        self.has_stored[cpu] &= domain == Domain::NonShareable || accesses == Accesses::Loads;
                    }
                    Barrier::Dmb { .. } => {}
                }
            }
            Instruction::Translate { is_write, address, .. } => {
                let kind = if *is_write { AccessKind::Write } else { AccessKind::Read };
                let outcomes = self.outcomes(cpu, self.state.cores()[cpu].general(*address), kind);
                // Several answers in its TLBs are a conflict to the CPU.
                let conflict = Outcome::Fault(Fault::stage1(FaultKind::Conflict, 0));
                let answer = match outcomes.as_slice() {
                    [one] if !self.conflicts_for_ever => *one,
                    _ => conflict,
                };
                let (before, after) = (self.state.cores()[cpu].system(System::Translated), par(answer, kind));
                self.pending[cpu].write(System::Translated, before, after);
                self.state.core_mut(cpu).set_system(System::Translated, after);
                self.translations += 1;
            }
            Instruction::Wake if self.has_stored[cpu] => {
                return Err(Finding::Early("it may be sent ahead of a store that comes before it".to_owned()));
            }
            Instruction::Return => {
                self.caches.barrier(cpu, Barrier::Isb).map_err(Finding::Cache)?;
                self.pending[cpu].synchronize();
            }
            Instruction::Cache { operation, operand } => {
                let address = self.state.cores()[cpu].general(*operand);
                let physical = match operation.has_address() {
                    true => self.translate(cpu, address, AccessKind::Read).map_err(Finding::Access)?,
                    false => 0,
                };
                self.caches.maintain(cpu, *operation, physical);
            }
            _ => {}
        }
        self.state.execute(cpu, instruction);
        Ok(())
    }

    /// An exception to the vectors of the same level, if it is certain where they are.
    fn undefined(&mut self, cpu: usize, register: System) -> Result<(), Finding> {
        let base = System::VectorBase(self.state.cores()[cpu].level());
        if self.pending[cpu].has(base) {
            return Err(unsynchronized(format!("{register} is undefined while {base} is not certain")));
        }
        self.caches.barrier(cpu, Barrier::Isb).map_err(Finding::Cache)?;
        self.pending[cpu].synchronize();
        self.state.undefined(cpu);
        Ok(())
    }

    fn system(&self, cpu: usize, register: System) -> u64 {
        match register {
            System::Translation(register) => self.register(cpu, register),
            other => self.state.cores()[cpu].system(other),
        }
    }

    /// What an instruction takes from registers must be there, and certain.
    fn check_registers(&self, cpu: usize, instruction: &Instruction) -> Result<(), Finding> {
        let core = &self.state.cores()[cpu];
        match *instruction {
            Instruction::ReadSystem { register, .. } if !core.knows(register) => {
                Err(Finding::Unknown(format!("{register} is read, and has no value here")))
            }
            Instruction::ReadSystem { register: System::Translated, .. }
                if self.pending[cpu].has(System::Translated) =>
            {
                Err(unsynchronized("PAR_EL1 is read, and may hold the answer to an earlier AT".to_owned()))
            }
            Instruction::WriteSystem { register, .. } | Instruction::ReadSystem { register, .. } => {
                let is_ours = core.level() == Level::El2 && register.to_string().ends_with("_EL1");
                match is_ours && self.pending[cpu].may_redirect(self.register(cpu, Register::HcrEl2)) {
                    true => Err(unsynchronized(format!("with HCR_EL2.E2H {register} means a register of EL2"))),
                    false => Ok(()),
                }
            }
            _ if self.state.target(cpu, instruction).is_some() => {
                let sctlr = self.register(cpu, Register::SctlrEl1);
                match core.level() == Level::El1 && self.pending[cpu].has_uncertain_data(sctlr) {
                    true => Err(unsynchronized("data is accessed while SCTLR_EL1.A or EE is not certain".to_owned())),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The one way that an access may go. Its last byte is asked for too: it may be on another page.
    fn way(&mut self, cpu: usize, access: &Access) -> Result<Way, Finding> {
        let address = access.address;
        if !address.is_multiple_of(access.bytes.min(8)) {
            return Err(Finding::Unknown(format!("an unaligned access to {address:#x} is not known here")));
        }
        let physical = self.translate(cpu, address, access.kind).map_err(Finding::Access)?;
        let beyond = access.bytes - 1;
        if self.translate(cpu, address + beyond, access.kind).map_err(Finding::Access)? != physical + beyond {
            return Err(Finding::Unknown(format!("an access to {address:#x} in two places is not known here")));
        }
        let ways = if self.is_translated(cpu) {
            self.state.machine_mut().ways(cpu as u8, address, access.kind)
        } else {
            Vec::new()
        };
        let outcome = Outcome::Translated(physical);
        Ok(ways.into_iter().next().unwrap_or(Way { outcome, update: None, observed: None, settled: None }))
    }

    /// What caches could do to an access.
    fn look_up(&mut self, cpu: usize, access: &Access, way: &Way) -> Result<(), Finding> {
        let Outcome::Translated(physical) = way.outcome else { return Ok(()) };
        let is_through = self.is_translated(cpu);
        // Accesses are aligned to 8 bytes, and lines are longer.
        for address in [physical, physical + access.bytes - 1] {
            let seen = match access.kind {
                AccessKind::Write => self.caches.store(address, is_through),
                _ => self.caches.load(address, is_through),
            };
            seen.map_err(Finding::Cache)?;
        }
        Ok(())
    }

    /// True when the newest registers of `cpu` have its MMU on.
    fn is_translated(&self, cpu: usize) -> bool {
        self.state.cores()[cpu].level() != Level::El2 && self.register(cpu, Register::SctlrEl1) & SCTLR_M != 0
    }

    /// The physical address of an access, if there is no doubt. Errors: several answers, or a fault.
    pub fn translate(&mut self, cpu: usize, address: u64, kind: AccessKind) -> Result<u64, finding::Access> {
        let outcomes = self.outcomes(cpu, address, kind);
        match outcomes.as_slice() {
            [Outcome::Translated(physical)] => Ok(*physical),
            _ => Err(finding::Access { address, outcomes }),
        }
    }

    /// Everything that an access may come to: through the MMU, and past it, where either may be.
    pub fn outcomes(&mut self, cpu: usize, address: u64, kind: AccessKind) -> Vec<Outcome> {
        let now = self.register(cpu, Register::SctlrEl1);
        let (may_be_on, may_be_off) = match self.state.cores()[cpu].level() {
            Level::El2 | Level::El3 => (true, false),
            _ => self.pending[cpu].mmu(now),
        };
        let mut outcomes = BTreeSet::new();
        if may_be_off {
            let is_too_wide = address >> self.machine().cpus()[cpu].features().output_bits != 0;
            let fault = Outcome::Fault(Fault::stage1(FaultKind::AddressSize, 0));
            outcomes.insert(if is_too_wide { fault } else { Outcome::Translated(address) });
        }
        if may_be_on {
            outcomes.extend(self.through_mmu(cpu, address, kind, now));
        }
        outcomes.into_iter().collect()
    }

    fn through_mmu(&mut self, cpu: usize, address: u64, kind: AccessKind, now: u64) -> Vec<Outcome> {
        let number = cpu as u8;
        let with_mmu = self.pending[cpu].with_mmu(now).unwrap_or(now);
        if with_mmu & 1 == now & 1 {
            return self.state.machine_mut().access(number, address, kind).outcomes;
        }
        // It was switched off without a context synchronization event, so that walks and hits go on.
        let mut machine = self.machine().clone();
        machine.write_register(number, Register::SctlrEl1, with_mmu);
        machine.access(number, address, kind).outcomes
    }
}

pub(crate) fn unsynchronized(what: String) -> Finding {
    Finding::Unsynchronized(what)
}
