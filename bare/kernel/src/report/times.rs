//! When boot came how far: in instructions, where they are counted, and in seconds.

use core::fmt;

use hardware::{pmu, timer};
use kerncore::list::List;

use crate::locks::{Lock, order};

/// How far boot has come. A number, not a name: it must survive the way to the high half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    MmuOn,
    DeviceTree,
    Tables,
    HighHalf,
    PageAllocator,
    Cpus,
    FirstCheck,
    Checks,
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::MmuOn => "MMU on",
            Self::DeviceTree => "device tree read",
            Self::Tables => "tables built",
            Self::HighHalf => "high half",
            Self::PageAllocator => "page allocator",
            Self::Cpus => "CPUs started",
            Self::FirstCheck => "first self-check",
            Self::Checks => "all self-checks",
        }
    }
}

#[derive(Clone, Copy)]
struct Record {
    step: Step,
    instructions: u64,
    ticks: u64,
}

struct Times {
    records: List<Record, 8>,
    entry_ticks: u64,
    /// The 32-bit counter at the last record, and the instructions until then.
    last_count: u32,
    instructions: u64,
}

static TIMES: Lock<Times> = Lock::new(
    order::TIMES,
    Times {
        records: List::new(Record { step: Step::MmuOn, instructions: 0, ticks: 0 }),
        entry_ticks: 0,
        last_count: 0,
        instructions: 0,
    },
);

/// The counter at entry, from which seconds are told.
pub(crate) fn start(entry_ticks: u64) {
    TIMES.with(|times| times.entry_ticks = entry_ticks);
}

/// Notes that boot has come this far. On the boot CPU, whose instructions are counted.
pub(crate) fn record(step: Step) {
    let (count, ticks) = (if pmu::counts_instructions() { pmu::read_instructions() } else { 0 }, timer::read_counter());
    TIMES.with(|times| {
        times.instructions += u64::from(count.wrapping_sub(times.last_count));
        times.last_count = count;
        let record = Record { step, instructions: times.instructions, ticks: ticks - times.entry_ticks };
        times.records.push(record).expect("as many records as steps");
    });
}

/// Every step: its name, the instructions until then if they are counted, and microseconds.
pub(crate) fn each() -> impl Iterator<Item = (&'static str, Option<u64>, u64)> {
    let records = TIMES.with(|times| times.records);
    let is_counted = pmu::counts_instructions();
    (0..).map_while(move |number| records.get(number).copied()).map(move |record| {
        let instructions = is_counted.then_some(record.instructions);
        (record.step.name(), instructions, microseconds(record.ticks))
    })
}

fn microseconds(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000 / u128::from(timer::read_frequency().max(1))) as u64
}

/// The table of times, a line per step.
pub(crate) struct Table;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_counted = pmu::counts_instructions();
        let records = TIMES.with(|times| times.records);
        for record in records.iter() {
            write!(f, "{:<18}", record.step.name())?;
            match is_counted {
                true => write!(f, "{:>12} instructions", record.instructions)?,
                false => write!(f, "{:>25}", "not counted")?,
            }
            let microseconds = microseconds(record.ticks);
            writeln!(f, "{:>6}.{:06} s", microseconds / 1_000_000, microseconds % 1_000_000)?;
        }
        Ok(())
    }
}
