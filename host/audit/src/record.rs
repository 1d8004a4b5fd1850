//! What was shown to the machine, event by event: stories name them, and a trace is written of them.

use std::fmt;

use machine::barrier::Barrier;
use machine::event::Level;
use machine::registers::Register;
use machine::tlbi::Opcode;
use machine::trace::REGISTERS;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// A store of 64 bits to a table, or to what becomes one.
    Store {
        /// Physical address.
        address: u64,
        /// Value.
        value: u64,
        /// A store-release.
        is_release: bool,
    },
    /// An exchange that found what was expected.
    Exchange {
        /// Physical address.
        address: u64,
        /// What it found.
        found: u64,
        /// What it stored.
        value: u64,
        /// With release semantics.
        is_release: bool,
    },
    /// Hardware set the access flag or the dirty state: seen by whoever read it next.
    Seen {
        /// Physical address.
        address: u64,
        /// What was read.
        value: u64,
    },
    /// A barrier.
    Barrier(Barrier),
    /// A TLBI.
    Tlbi {
        /// Its opcode.
        opcode: Opcode,
        /// Its operand.
        operand: u64,
    },
    /// MSR.
    Write {
        /// Register.
        register: Register,
        /// Value.
        value: u64,
    },
    /// Exception entry, or return.
    Enter(Level),
}

/// An event, and where it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The CPU.
    pub cpu: u8,
    /// Address of the instruction; 0 where it is not known.
    pub place: u64,
    /// What happened.
    pub act: Act,
}

impl fmt::Display for Act {
    /// As a line of a trace has it, after the number of the CPU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let release = |is_release: bool| if is_release { "-release" } else { "" };
        match *self {
            Self::Store { address, value, is_release } => {
                write!(f, "store{} {address:#x} {value:#x}", release(is_release))
            }
            Self::Exchange { address, found, value, is_release } => {
                write!(f, "exchange{} {address:#x} {found:#x} {value:#x} {found:#x}", release(is_release))
            }
            Self::Seen { address, value } => write!(f, "load {address:#x} {value:#x}"),
            Self::Barrier(barrier) => f.write_str(&barrier.to_string().to_ascii_lowercase()),
            Self::Tlbi { opcode, operand } => match opcode.decode() {
                Some(operation) => write!(f, "{} {operand:#x}", operation.to_string().to_ascii_lowercase()),
                None => {
                    let (op1, crn, crm, op2) = opcode.fields();
                    let bits = 0xd508_0000 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5;
                    write!(f, "tlbi {bits:#x} {operand:#x}")
                }
            },
            Self::Write { register, value } => write!(f, "msr {} {value:#x}", name(register)),
            Self::Enter(Level::El0) => write!(f, "enter el0"),
            Self::Enter(Level::El1) => write!(f, "enter el1"),
            Self::Enter(Level::El2) => write!(f, "enter el2"),
        }
    }
}

fn name(register: Register) -> &'static str {
    REGISTERS.iter().find(|(_, it)| *it == register).map_or("", |(name, _)| name)
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.cpu, self.act)
    }
}

/// Records that are kept at most: some hundred megabytes.
const MOST: usize = 3 << 20;

/// The records by the machine's event numbers; of a long run the oldest are gone.
#[derive(Debug, Default)]
pub struct Log {
    /// Number of the event before the first record.
    before: u64,
    records: Vec<Record>,
}

impl Log {
    /// Everything up to event `now` that is not recorded yet comes from `record`.
    pub fn add(&mut self, now: u64, record: Record) {
        if self.records.len() >= MOST {
            self.records.drain(..MOST / 2);
            self.before += (MOST / 2) as u64;
        }
        while self.before + (self.records.len() as u64) < now {
            self.records.push(record);
        }
    }

    /// The record of an event.
    pub fn of(&self, event: u64) -> Option<&Record> {
        self.records.get(usize::try_from(event.checked_sub(self.before + 1)?).ok()?)
    }

    /// The last record before `event` that wrote the word at `address`.
    pub fn writer(&self, address: u64, event: u64) -> Option<&Record> {
        let end = usize::try_from(event.saturating_sub(self.before + 1)).unwrap_or(0).min(self.records.len());
        let wrote = |it: &&Record| match it.act {
            Act::Store { address: at, .. } | Act::Exchange { address: at, .. } => at == address,
            _ => false,
        };
        self.records[..end].iter().rev().find(wrote)
    }
}
