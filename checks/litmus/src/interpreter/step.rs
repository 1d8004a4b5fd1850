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

use super::core::Core;
use super::memory;
use super::order::Order;
use crate::condition::{End, Taken};
use crate::instruction::{Instruction, System, Width};
use crate::test::{OnFault, Profile, Test};

/// Instructions that concern registers alone, at most so many in a row: more is an endless loop.
const REGISTERS_ONLY: usize = 10_000;

/// The whole system between two steps.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) machine: Machine,
    pub(super) cores: Vec<Core>,
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
    /// The system at the start of `test`.
    pub fn new(test: &Test, profile: Profile) -> Self {
        let cores: Vec<Core> = test.threads.iter().map(Core::new).collect();
        let orders = vec![Order::default(); cores.len()];
        let mut state = Self { machine: test.machine(profile), cores, orders, ets: profile.ets };
        for cpu in 0..state.cores.len() {
            state.settle(cpu, &test.code);
        }
        state
    }

    /// The CPUs.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
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

    /// True when a thread has ended where the test has no code for it: in a vector without handler, most of all.
    pub fn is_lost(&self, test: &Test) -> bool {
        let is_lost = |core: &Core| core.on_fault == OnFault::Vectors && !test.ends.contains(&core.place());
        self.cores.iter().any(is_lost)
    }

    /// The final state, for a condition.
    pub fn with_end<T>(&self, use_it: impl FnOnce(&End<'_>) -> T) -> T {
        use_it(&End { cores: &self.cores, word: &|address| self.machine.word(address) })
    }

    /// Executes what concerns registers alone. A thread whose next instruction does not exist has ended.
    pub(super) fn settle(&mut self, cpu: usize, code: &BTreeMap<u64, Instruction>) {
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
        let mut nexts = match memory::target(core, instruction) {
            Some((address, kind)) => self.access(cpu, instruction, address, kind),
            None => vec![Next { state: self.without_access(cpu, instruction), way: None }],
        };
        nexts.iter_mut().for_each(|next| next.state.settle(cpu, code));
        nexts
    }

    fn without_access(&self, cpu: usize, instruction: &Instruction) -> Self {
        let mut next = self.clone();
        let (machine, core, number) = (&mut next.machine, &mut next.cores[cpu], cpu as u8);
        match *instruction {
            Instruction::Barrier(barrier) => {
                machine.barrier(number, barrier);
                if barrier == Barrier::Isb {
                    next.orders[cpu].synchronize();
                }
            }
            Instruction::Tlbi { opcode, operand } => machine.tlbi(number, opcode, core.general(operand)),
            Instruction::ReadSystem { to, register } => {
                let value = match register {
                    System::Translation(register) => machine.cpus()[cpu].newest_registers().get(register),
                    other => core.system(other),
                };
                core.set_general(to, Width::Double, value);
                next.orders[cpu].read_system(to);
            }
            Instruction::WriteSystem { register: System::Translation(register), from } => {
                machine.write_register(number, register, core.general(from));
            }
            Instruction::WriteSystem { register, from } => core.set_system(register, core.general(from)),
            Instruction::Call { level, number } => {
                let class = if level == Level::El2 { 0x16 } else { 0x15 };
                core.go_on();
                next.take(cpu, level, class << 26 | 1 << 25 | u64::from(number));
                return next;
            }
            Instruction::Return => {
                let level = core.level;
                core.set_state_bits(core.system(System::SavedState(level)));
                core.go_to(core.system(System::Return(level)));
                machine.enter(number, core.level);
                next.orders[cpu].synchronize();
                return next;
            }
            _ => {}
        }
        next.cores[cpu].go_on();
        next
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
        core.go_to(core.system(System::VectorBase(level)) + offset);
        (core.level, core.has_own_stack) = (level, true);
        self.machine.enter(cpu as u8, level);
        self.orders[cpu].synchronize();
    }

    fn access(&self, cpu: usize, instruction: &Instruction, address: u64, kind: AccessKind) -> Vec<Next> {
        let mut asked = self.clone();
        let ways = asked.machine.ways(cpu as u8, address, kind);
        let floor = self.orders[cpu].walk_floor(instruction, self.ets);
        let is_too_early = |way: &Way| way.settled.is_some_and(|settled| settled <= floor);
        let ways: Vec<Way> = ways.into_iter().filter(|way| !is_conflict(way) && !is_too_early(way)).collect();
        let is_choice = ways.len() > 1;
        let lead = |way: &Way| {
            let mut state = asked.clone();
            if let Some(word) = way.observed {
                state.machine.observe(cpu as u8, word);
            }
            if let Some(update) = &way.update {
                state.machine.update_by_hardware(update);
            }
            match way.outcome {
                Outcome::Translated(physical) => {
                    memory::perform(&mut state, cpu, instruction, physical);
                    let now = state.machine.events();
                    state.orders[cpu].accessed(instruction, now);
                }
                Outcome::Fault(fault) => state.fault(cpu, address, kind, fault),
            }
            Next { state, way: is_choice.then_some(way.outcome) }
        };
        ways.iter().map(lead).collect()
    }

    fn fault(&mut self, cpu: usize, address: u64, kind: AccessKind, fault: Fault) {
        let core = &mut self.cores[cpu];
        core.note_fault(Taken { place: core.place(), address, kind: fault.kind });
        match core.on_fault {
            OnFault::End => core.has_ended = true,
            OnFault::Skip => core.go_on(),
            OnFault::Handler(handler) => {
                core.set_system(System::Return(core.level), core.place());
                core.set_system(System::SavedState(core.level), core.state_bits());
                core.go_to(handler);
                let level = core.level;
                self.machine.enter(cpu as u8, level);
                self.orders[cpu].synchronize();
            }
            OnFault::Vectors => {
                let level = if fault.is_stage2 || core.level == Level::El2 { Level::El2 } else { Level::El1 };
                core.set_system(System::FaultAddress(level), address);
                core.set_system(System::FaultIntermediate, fault.hpfar());
                let syndrome = fault.esr(kind, core.level == level);
                self.take(cpu, level, syndrome);
            }
        }
    }
}

/// A TLB conflict abort is what the break-before-make rules speak of, not an outcome of any test.
fn is_conflict(way: &Way) -> bool {
    matches!(way.outcome, Outcome::Fault(fault) if fault.kind == machine::syndrome::FaultKind::Conflict)
}
