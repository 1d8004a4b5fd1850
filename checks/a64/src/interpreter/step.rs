//! One step of one CPU: everything that it may lead to.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use machine::barrier::Barrier;
use machine::event::Level;
use machine::finding::Finding;
use machine::machine::{Machine, Outcome, Way};
use machine::registers::Ets;
use machine::syndrome::{AccessKind, Fault};

use super::core::{Cause, Core, OnFault, Taken};
use super::memory::{self, Access};
use super::order::Order;
use crate::instruction::{Instruction, Width};
use crate::registers::System;

/// Instructions that concern registers alone, at most so many in a row: more is an endless loop.
const REGISTERS_ONLY: usize = 10_000;

/// The whole system between two steps.
#[derive(Clone, Debug)]
pub struct State {
    machine: Machine,
    cores: Vec<Core>,
    orders: Vec<Order>,
    ets: Ets,
}

/// What a step led to.
#[derive(Clone, Debug)]
pub struct Next {
    /// The system after it.
    pub state: State,
    /// What happened, if it could have been something else.
    pub way: Option<Outcome>,
}

impl State {
    /// These cores on this machine, whose CPUs have FEAT_ETS2 or have not.
    pub fn new(machine: Machine, cores: Vec<Core>, ets: Ets) -> Self {
        let orders = vec![Order::default(); cores.len()];
        Self { machine, cores, orders, ets }
    }

    /// The CPUs.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The machine, for what is no instruction.
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }

    /// A CPU, for what is no instruction.
    pub fn core_mut(&mut self, cpu: usize) -> &mut Core {
        &mut self.cores[cpu]
    }

    /// What the rules found since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        if self.machine.findings().is_empty() { Vec::new() } else { self.machine.take_findings() }
    }

    /// Equal states have equal numbers.
    pub fn digest(&self) -> u128 {
        let mut hasher = DefaultHasher::new();
        self.cores.hash(&mut hasher);
        let settled: Vec<u64> = self.machine.unseen().filter_map(|(_, settled)| settled).collect();
        self.orders.iter().for_each(|order| order.digest(&settled).hash(&mut hasher));
        u128::from(self.machine.digest()) << 64 | u128::from(hasher.finish())
    }

    /// True when every thread has ended.
    pub fn is_final(&self) -> bool {
        self.cores.iter().all(|core| core.has_ended)
    }

    /// Executes what concerns registers alone. A thread whose next instruction does not exist has ended.
    pub fn settle(&mut self, cpu: usize, code: &BTreeMap<u64, Instruction>) {
        let core = &mut self.cores[cpu];
        for _ in 0..REGISTERS_ONLY {
            match code.get(&core.place()) {
                Some(instruction) if core.execute(instruction) => self.orders[cpu].follow(instruction),
                Some(_) => return,
                None => break,
            }
        }
        core.has_ended = true;
    }

    /// Everything that the next step of `cpu` may lead to; nothing if it has ended.
    pub fn step(&self, cpu: usize, code: &BTreeMap<u64, Instruction>) -> Vec<Next> {
        let core = &self.cores[cpu];
        let Some(instruction) = code.get(&core.place()).filter(|_| !core.has_ended) else { return Vec::new() };
        let mut nexts = match (memory::target(core, instruction), *instruction) {
            (Some(access), _) => self.access(cpu, instruction, &access),
            (None, Instruction::Translate { level, is_write, address }) => {
                self.translate(cpu, level, is_write, core.general(address))
            }
            (None, _) => {
                let mut state = self.clone();
                state.execute(cpu, instruction);
                vec![Next { state, way: None }]
            }
        };
        nexts.iter_mut().for_each(|next| next.state.settle(cpu, code));
        nexts
    }

    /// AT, by every way that an access could go. Hardware may leave the access flag alone, and does so here.
    fn translate(&self, cpu: usize, level: Level, is_write: bool, address: u64) -> Vec<Next> {
        let mut asked = self.machine.clone();
        if self.cores[cpu].level != level {
            asked.enter(cpu as u8, level);
        }
        let kind = if is_write { AccessKind::Write } else { AccessKind::Read };
        let mut outcomes: Vec<Outcome> = asked.ways(cpu as u8, address, kind).iter().map(|way| way.outcome).collect();
        outcomes.sort_unstable();
        outcomes.dedup();
        let is_choice = outcomes.len() > 1;
        let lead = |outcome: Outcome| {
            let mut state = self.clone();
            let core = &mut state.cores[cpu];
            core.set_system(System::Translated, par(outcome, kind));
            core.go_on();
            Next { state, way: is_choice.then_some(outcome) }
        };
        outcomes.into_iter().map(lead).collect()
    }

    /// The access that `instruction` would make on `cpu`, if it makes one.
    pub fn target(&self, cpu: usize, instruction: &Instruction) -> Option<Access> {
        memory::target(&self.cores[cpu], instruction)
    }

    /// Executes an instruction that accesses no memory.
    pub fn execute(&mut self, cpu: usize, instruction: &Instruction) {
        let (machine, core, number) = (&mut self.machine, &mut self.cores[cpu], cpu as u8);
        if core.execute(instruction) {
            return self.orders[cpu].follow(instruction);
        }
        match *instruction {
            Instruction::Barrier(barrier) => {
                machine.barrier(number, barrier);
                if barrier == Barrier::Isb {
                    self.orders[cpu].synchronize();
                }
            }
            Instruction::Tlbi { opcode, operand } => {
                let moment = self.orders[cpu].tlbi_floor(operand);
                machine.tlbi_after(number, opcode, core.general(operand), moment);
            }
            Instruction::ReadSystem { to, register } => {
                let value = match register {
                    System::Translation(register) => machine.cpus()[cpu].newest_registers().get(register),
                    other => core.system(other),
                };
                core.set_general(to, Width::Double, value);
                self.orders[cpu].read_system(to);
            }
            Instruction::WriteSystem { register: System::Translation(register), from } => {
                machine.write_register(number, register, core.general(from));
            }
            Instruction::WriteSystem { register, from } => core.set_system(register, core.general(from)),
            Instruction::Call { level: Level::El2, number } => {
                core.go_on();
                return self.take(cpu, Level::El2, 0x16 << 26 | 1 << 25 | u64::from(number));
            }
            Instruction::Call { number, .. } => {
                return self.exception(cpu, Cause::Call, 4, 0x15 << 26 | 1 << 25 | u64::from(number));
            }
            Instruction::Undefined => return self.undefined(cpu),
            Instruction::Return => {
                let level = core.level;
                core.set_state_bits(core.system(System::SavedState(level)));
                core.go_to(core.system(System::Return(level)));
                machine.enter(number, core.level);
                return self.orders[cpu].synchronize();
            }
            _ => {}
        }
        self.cores[cpu].go_on();
    }

    /// The next instruction is undefined.
    pub fn undefined(&mut self, cpu: usize) {
        self.exception(cpu, Cause::Undefined, 0, 1 << 25);
    }

    /// An exception that is no fault of an access, by whatever that is to do; the address to return to is `beyond` the
    /// instruction.
    fn exception(&mut self, cpu: usize, cause: Cause, beyond: u64, syndrome: u64) {
        let core = &mut self.cores[cpu];
        core.note(Taken { place: core.place(), address: None, cause });
        if !self.goes_around(cpu) {
            let core = &mut self.cores[cpu];
            core.go_to(core.place() + beyond);
            let level = core.level.max(Level::El1);
            self.take(cpu, level, syndrome);
        }
    }

    /// True when nobody handles exceptions of `cpu`, and the thread has done what stands in the place of a handler.
    fn goes_around(&mut self, cpu: usize) -> bool {
        let core = &mut self.cores[cpu];
        match core.on_fault {
            OnFault::End => core.has_ended = true,
            OnFault::Skip => core.go_on(),
            // Entry and return of an exception are context synchronization events.
            OnFault::Retry => {
                let level = core.level;
                self.machine.enter(cpu as u8, level);
                self.orders[cpu].synchronize();
            }
            OnFault::Handler(_) | OnFault::Vectors => return false,
        }
        true
    }

    /// An exception to `level`; the address to return to is the program counter.
    fn take(&mut self, cpu: usize, level: Level, syndrome: u64) {
        let core = &mut self.cores[cpu];
        let offset = match (core.level == level, core.has_own_stack) {
            (true, false) => 0,
            (true, true) => 0x200,
            (false, _) => 0x400,
        };
        core.set_system(System::Return(level), core.place());
        core.set_system(System::SavedState(level), core.state_bits());
        core.set_system(System::Syndrome(level), syndrome);
        core.go_to(match core.on_fault {
            OnFault::Handler(handler) => handler,
            _ => core.system(System::VectorBase(level)) + offset,
        });
        (core.level, core.has_own_stack) = (level, true);
        core.mask_all();
        self.machine.enter(cpu as u8, level);
        self.orders[cpu].synchronize();
    }

    /// Every way that `access` of `instruction` may go.
    pub fn ways(&mut self, cpu: usize, instruction: &Instruction, access: &Access) -> Vec<Way> {
        let floor = self.orders[cpu].walk_floor(instruction, self.ets);
        let is_too_early = |way: &Way| way.settled.is_some_and(|settled| settled <= floor);
        let ways = self.machine.ways(cpu as u8, access.address, access.kind);
        ways.into_iter().filter(|way| !is_too_early(way)).collect()
    }

    /// Executes `instruction`, whose `access` goes this way.
    pub fn go(&mut self, cpu: usize, instruction: &Instruction, access: &Access, way: &Way) {
        if let Some(word) = way.observed {
            self.machine.observe(cpu as u8, word);
            self.orders[cpu].walked(self.machine.events());
        }
        if let Some(update) = &way.update {
            self.machine.update_by_hardware(cpu as u8, update);
        }
        match way.outcome {
            Outcome::Translated(physical) => {
                memory::perform(&mut self.machine, &mut self.cores, cpu, instruction, physical);
                let now = self.machine.events();
                self.orders[cpu].accessed(instruction, now);
            }
            Outcome::Fault(fault) => self.fault(cpu, access, fault),
        }
    }

    fn access(&self, cpu: usize, instruction: &Instruction, access: &Access) -> Vec<Next> {
        let mut asked = self.clone();
        let ways = asked.ways(cpu, instruction, access);
        let ways: Vec<Way> = ways.into_iter().filter(|way| !is_conflict(way)).collect();
        let is_choice = ways.len() > 1;
        let lead = |way: &Way| {
            let mut state = asked.clone();
            state.go(cpu, instruction, access, way);
            Next { state, way: is_choice.then_some(way.outcome) }
        };
        ways.iter().map(lead).collect()
    }

    /// A fault of `access`, by whatever that is to do.
    pub fn fault(&mut self, cpu: usize, access: &Access, fault: Fault) {
        let Access { address, kind, .. } = *access;
        let core = &mut self.cores[cpu];
        core.note(Taken { place: core.place(), address: Some(address), cause: Cause::Access(fault.kind) });
        if !self.goes_around(cpu) {
            let core = &mut self.cores[cpu];
            let level = if fault.is_stage2 || core.level == Level::El2 { Level::El2 } else { Level::El1 };
            core.set_system(System::FaultAddress(level), address);
            core.set_system(System::FaultIntermediate, fault.hpfar());
            let syndrome = fault.esr(kind, core.level == level);
            self.take(cpu, level, syndrome);
        }
    }
}

/// PAR_EL1 behind an AT of this outcome.
pub fn par(outcome: Outcome, kind: AccessKind) -> u64 {
    match outcome {
        Outcome::Translated(physical) => physical & !0xfff,
        Outcome::Fault(fault) => 1 | (fault.esr(kind, true) & 0x3f) << 1 | u64::from(fault.is_stage2) << 9 | 1 << 11,
    }
}

/// A TLB conflict abort is what the break-before-make rules speak of, not an outcome of any test.
fn is_conflict(way: &Way) -> bool {
    matches!(way.outcome, Outcome::Fault(fault) if fault.kind == machine::syndrome::FaultKind::Conflict)
}
