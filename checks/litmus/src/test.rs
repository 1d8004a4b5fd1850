//! A test, read whole: what memory, registers and code are at the start, and what is asked at the end.

use std::collections::{BTreeMap, BTreeSet};

use machine::barrier::Barrier;
use machine::event::Level;
use machine::machine::Machine;
use machine::registers::{Ets, Features, Register};

use crate::condition::Condition;
use crate::instruction::{Instruction, System};

/// What the final condition is said to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantifier {
    /// Some final state fulfils it; whether one may is the question.
    Exists,
    /// Every final state fulfils it.
    Forall,
}

/// What happens when an access faults.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnFault {
    /// An exception to the vectors in VBAR.
    Vectors,
    /// The thread goes on at this address; ERET returns.
    Handler(u64),
    /// The thread ends.
    End,
    /// The thread goes on with the next instruction.
    Skip,
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
        }
        machine.take_findings();
        machine
    }
}
