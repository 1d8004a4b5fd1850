//! What every CPU's guest did, counted, and the table of it that ends a run.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::options::MAX_CPUS;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An ID register was read.
    IdRegister,
    /// An SMC or HVC that the monitor answered with something else than NOT_SUPPORTED.
    Call,
    /// An SMC or HVC that asked for nothing the monitor knows.
    UnknownCall,
    /// A system register or instruction that came to EL2 and that the guest does not have.
    UnknownRegister,
    /// An access that stage 2 refused: memory of the monitor, or nothing at all.
    Refused,
    /// A call of RSI.
    Rsi,
    /// One that was answered with an error.
    RsiError,
    /// A request that the realm's host rejected, or got nowhere with.
    RsiRefused,
    /// A request that was carried out in part.
    RsiPartial,
    /// An access to shared memory by its protected address.
    Shared,
    /// An access to private memory by its unprotected address.
    Private,
    /// A TLBI, where they trap.
    Tlbi,
    /// A resize that the guest has announced.
    Resize,
    /// A TLB conflict abort put into EL1, on an access to data.
    ConflictData,
    /// The same on an instruction fetch.
    ConflictFetch,
    /// A TLB conflict abort of EL0, on an access to data.
    ConflictUserData,
    /// The same on an instruction fetch.
    ConflictUserFetch,
    /// A conflict that aborted as often as was asked for, and that no invalidation of everything has ended.
    ConflictUnanswered,
    /// A conflict of stage 2, handled here.
    ConflictStage2,
    /// Any other exception that came to EL2 and was given to the guest as an undefined instruction.
    Other,
}

impl Event {
    /// Every event, in the order of the report.
    pub const ALL: [Self; 20] = [
        Self::IdRegister,
        Self::Call,
        Self::UnknownCall,
        Self::UnknownRegister,
        Self::Refused,
        Self::Rsi,
        Self::RsiError,
        Self::RsiRefused,
        Self::RsiPartial,
        Self::Shared,
        Self::Private,
        Self::Tlbi,
        Self::Resize,
        Self::ConflictData,
        Self::ConflictFetch,
        Self::ConflictUserData,
        Self::ConflictUserFetch,
        Self::ConflictUnanswered,
        Self::ConflictStage2,
        Self::Other,
    ];

    /// The words of the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IdRegister => "ID registers read",
            Self::Call => "firmware calls",
            Self::UnknownCall => "unknown firmware calls",
            Self::UnknownRegister => "unknown registers",
            Self::Refused => "accesses refused",
            Self::Rsi => "RSI calls",
            Self::RsiError => "RSI calls, errors",
            Self::RsiRefused => "RSI requests refused",
            Self::RsiPartial => "RSI requests in part",
            Self::Shared => "shared, as protected",
            Self::Private => "private, as shared",
            Self::Tlbi => "TLBIs",
            Self::Resize => "resizes announced",
            Self::ConflictData => "conflicts, EL1 data",
            Self::ConflictFetch => "conflicts, EL1 fetch",
            Self::ConflictUserData => "conflicts, EL0 data",
            Self::ConflictUserFetch => "conflicts, EL0 fetch",
            Self::ConflictUnanswered => "conflicts, not ended",
            Self::ConflictStage2 => "conflicts, stage 2",
            Self::Other => "other exceptions",
        }
    }
}

/// The counts of every CPU.
pub struct Counts([[AtomicU64; Event::ALL.len()]; MAX_CPUS]);

impl Counts {
    /// Nothing has happened.
    pub const fn new() -> Self {
        Self([const { [const { AtomicU64::new(0) }; Event::ALL.len()] }; MAX_CPUS])
    }

    /// Counts an event on a CPU below [`MAX_CPUS`]; gives how many there were on it before.
    pub fn add(&self, cpu: usize, event: Event) -> u64 {
        self.0[cpu][event as usize].fetch_add(1, Ordering::Relaxed)
    }

    /// How many events there were on a CPU below [`MAX_CPUS`].
    pub fn get(&self, cpu: usize, event: Event) -> u64 {
        self.0[cpu][event as usize].load(Ordering::Relaxed)
    }

    /// A table of the first `cpus` CPUs: a line for what happened at all, a column for each CPU.
    pub fn table(&self, cpus: usize) -> impl fmt::Display + '_ {
        Table { counts: self, cpus: cpus.min(MAX_CPUS) }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

struct Table<'c> {
    counts: &'c Counts,
    cpus: usize,
}

const NAME_COLUMNS: usize = 24;
const COLUMNS: usize = 10;

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:NAME_COLUMNS$}", "")?;
        for cpu in 0..self.cpus {
            write!(f, "{:>width$}{cpu}", "cpu ", width = COLUMNS - 1)?;
        }
        writeln!(f)?;
        for event in Event::ALL {
            let counts = || (0..self.cpus).map(|cpu| self.counts.get(cpu, event));
            if counts().all(|count| count == 0) {
                continue;
            }
            write!(f, "{:NAME_COLUMNS$}", event.name())?;
            counts().try_for_each(|count| write!(f, "{count:>COLUMNS$}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_has_what_happened() {
        let counts = Counts::new();
        for _ in 0..70 {
            counts.add(0, Event::IdRegister);
        }
        counts.add(1, Event::Refused);
        assert_eq!(counts.add(1, Event::Refused), 1);
        expect![[r#"
                                         cpu 0     cpu 1
            ID registers read               70         0
            accesses refused                 0         2
        "#]]
        .assert_eq(&counts.table(2).to_string());
    }

    #[test]
    fn every_event_has_its_place() {
        for (index, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, index);
            assert!(event.name().len() < NAME_COLUMNS, "{}", event.name());
        }
    }
}
