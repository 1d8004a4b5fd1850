//! What was shown to the machine, event by event: stories name them, and a trace is written of them.

use std::fmt;

use machine::event::Event;
use machine::trace::Act;

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

impl Record {
    /// An event of the machine.
    pub const fn of(cpu: u8, place: u64, event: Event) -> Self {
        Self { cpu, place, act: Act::Event(event) }
    }
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
            Act::Event(Event::Store { address: at, .. }) | Act::Exchange { address: at, .. } => at == address,
            _ => false,
        };
        self.records[..end].iter().rev().find(wrote)
    }
}
