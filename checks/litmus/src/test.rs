//! A test, read whole: what memory, registers and code are at the start, and what is asked at the end.

use std::collections::{BTreeMap, BTreeSet};

use a64::instruction::{General, Instruction, Width};
use a64::interpreter::{Core, OnFault, State};
use a64::registers::System;
use machine::barrier::Barrier;
use machine::event::Level;
use machine::machine::Machine;
use machine::registers::{Ets, Features, Register};

use crate::condition::{Condition, End};

/// What the final condition is said to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantifier {
    /// Some final state fulfils it; whether one may is the question.
    Exists,
    /// Every final state fulfils it.
    Forall,
}

/// A thread at the start; each has a CPU of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Address of its first instruction.
    pub entry: u64,
    /// General-purpose registers.
    pub general: [u64; 31],
    /// System registers that only handlers use.
    pub system: Vec<(System, u64)>,
    /// Registers that decide how addresses are translated.
    pub translation: Vec<(Register, u64)>,
    /// Exception level.
    pub level: Level,
    /// PSTATE.SP.
    pub has_own_stack: bool,
    /// What happens when an access faults.
    pub on_fault: OnFault,
}

/// A test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Test {
    /// Its name for itself.
    pub name: String,
    /// Words of memory at the start, by physical address.
    pub memory: BTreeMap<u64, u64>,
    /// Code by address.
    pub code: BTreeMap<u64, Instruction>,
    /// How the code was written, for stories.
    pub source: BTreeMap<u64, String>,
    /// Where a thread may end: behind its code. Anywhere else it is lost, and what it was to show remains open.
    pub ends: BTreeSet<u64>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// What is asked.
    pub condition: Condition,
    /// How it is asked.
    pub quantifier: Quantifier,
}

/// Features of the CPUs that matter to a test and that its file leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// FEAT_ETS2 or FEAT_ETS3.
    pub ets: Ets,
    /// FEAT_BBM level.
    pub bbm: u8,
}

impl Test {
    /// The machine at the start: everything stored, visible and synchronized.
    pub fn machine(&self, profile: Profile) -> Machine {
        let features = Features { ets: profile.ets, lpa2: false, lpa: false, ..Features::full(profile.bbm) };
        let mut machine = Machine::new(&vec![features; self.threads.len()]);
        machine.settle_stores();
        machine.stop_walks_at_el2();
        for (word, value) in &self.memory {
            machine.store(0, *word, *value);
        }
        machine.barrier(0, Barrier::DSB_SY);
        for (cpu, thread) in self.threads.iter().enumerate() {
            let cpu = cpu as u8;
            for (register, value) in &thread.translation {
                machine.write_register(cpu, *register, *value);
                machine.barrier(cpu, Barrier::Isb);
            }
            machine.enter(cpu, thread.level);
            machine.barrier(cpu, Barrier::DSB_SY);
        }
        machine.take_findings();
        machine
    }

    /// Machine and CPUs at the start.
    pub fn state(&self, profile: Profile) -> State {
        let cores = self.threads.iter().map(Thread::core).collect();
        let mut state = State::new(self.machine(profile), cores, profile.ets);
        for cpu in 0..self.threads.len() {
            state.settle(cpu, &self.code);
        }
        state
    }

    /// True when a thread has ended neither behind its code nor by a fault that ends it: in a vector without handler, most
    /// of all.
    pub fn is_lost(&self, state: &State) -> bool {
        let mut ends = self.threads.iter().zip(state.cores());
        ends.any(|(thread, core)| {
            let has_faulted = || core.taken().iter().any(|taken| taken.place == core.place());
            !(self.ends.contains(&core.place()) || thread.on_fault == OnFault::End && has_faulted())
        })
    }

    /// True when the condition holds in `state`, which is final.
    pub fn holds(&self, state: &State) -> bool {
        self.condition.holds(&End { cores: state.cores(), word: &|address| state.machine().word(address) })
    }
}

impl Thread {
    fn core(&self) -> Core {
        let mut core = Core::new(self.entry, self.level, self.on_fault);
        for (number, value) in self.general.iter().enumerate() {
            core.set_general(General(number as u8), Width::Double, *value);
        }
        self.system.iter().for_each(|(register, value)| core.set_system(*register, *value));
        core.select_stack(self.has_own_stack);
        core
    }
}
