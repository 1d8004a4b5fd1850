//! What the rules found: data first, and a story in plain words. Who wrote what, what may still be cached where, which
//! step is missing, which rule that breaks, and what hardware could do.

mod rule;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

pub use rule::{Lint, Reason, Rule};

use crate::barrier::Barrier;
use crate::event::Level;
use crate::tlb::entry::Entry;
use crate::tlb::holders::Cpus;
use crate::tlb::stale::{NearMiss, Origin};
use crate::tlbi::{Flaw, Miss, Operation};

/// The step that would have made it right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Nothing more specific is known.
    None,
    /// An invalid descriptor first.
    Break,
    /// A DSB by the CPU that stored.
    DsbAfterStore(u8),
    /// A TLBI.
    Tlbi,
    /// A TLBI that selects the entry: one came close.
    BetterTlbi(NearMiss),
    /// A DSB, for loads and stores and of wide enough domain, by the CPU that issued the TLBI.
    DsbAfterTlbi(u8),
    /// A context synchronization event on this CPU.
    Synchronization(u8),
    /// The TLBI and its DSB once more: a CPU that may hold the entry needs both twice.
    Repetition,
    /// A DSB by the CPU that stored to this address, and on a CPU without FEAT_ETS2 an ISB.
    Visibility(u64),
    /// A stage-1 invalidation after the stage-2 one.
    Stage1AfterStage2,
    /// A compare-and-exchange.
    Exchange,
    /// An ALL or VMALL form.
    WholeInvalidation,
    /// The correct encoding.
    Encoding(Option<Flaw>),
    /// An exception level: below it the instruction is UNDEFINED.
    Level(Level),
    /// Another table than one that this event gave away.
    NewTable(u64),
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// Number of the event, counted from 1.
    pub event: u64,
    /// CPU of the event.
    pub cpu: u8,
    /// The input address (or frame, for reuse) that it is about.
    pub address: u64,
    /// The descriptor's physical address and the value stored there, if it is about a store.
    pub store: Option<(u64, u64, u64)>,
    /// What may still be cached.
    pub cached: Option<Entry>,
    /// What else leads to memory that was given away, and the root of its page table.
    pub also: Vec<(Entry, u64)>,
    /// What it must not meet.
    pub other: Option<Entry>,
    /// Which CPUs may hold it.
    pub cpus: Cpus,
    /// How it came to be there.
    pub origin: Option<Origin>,
    /// Why the two do not go together.
    pub reason: Option<Reason>,
    /// What is missing.
    pub missing: Missing,
    /// The TLBI that it is about.
    pub operation: Option<Operation>,
    /// The barrier that it is about.
    pub barrier: Option<Barrier>,
}

impl Finding {
    /// A finding of `rule` with nothing filled in yet.
    pub(crate) const fn new(rule: Rule, event: u64, cpu: u8, address: u64) -> Self {
        Self {
            rule,
            event,
            cpu,
            address,
            store: None,
            cached: None,
            also: Vec::new(),
            other: None,
            cpus: 0,
            origin: None,
            reason: None,
            missing: Missing::None,
            operation: None,
            barrier: None,
        }
    }

    /// True for work that was not needed, false for a violation.
    pub const fn is_lint(&self) -> bool {
        matches!(self.rule, Rule::Lint(_))
    }
}

/// What a story calls things: events by their number, unless whoever tells it knows more of them.
pub trait Names {
    /// Names an event.
    ///
    /// # Errors
    /// What writing reports.
    fn event(&self, f: &mut fmt::Formatter<'_>, event: u64) -> fmt::Result {
        write!(f, "event {event}")
    }

    /// Says `what` of who wrote the word at `address` before the event of `finding`, on a line that ends; nothing if that is unknown.
    ///
    /// # Errors
    /// What writing reports.
    fn writer(&self, _f: &mut fmt::Formatter<'_>, _finding: &Finding, _address: u64, _what: &str) -> fmt::Result {
        Ok(())
    }
}

/// Further entries that a story names.
const MOST_NAMED: usize = 4;

/// Events by their numbers.
struct Numbers;

impl Names for Numbers {}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tell(f, &Numbers)
    }
}

impl Finding {
    /// The story, with the names that `names` gives.
    ///
    /// # Errors
    /// What writing reports.
    pub fn tell(&self, f: &mut fmt::Formatter<'_>, names: &dyn Names) -> fmt::Result {
        write!(f, "{} At ", self.rule)?;
        names.event(f, self.event)?;
        write!(f, ", CPU {} ", self.cpu)?;
        match (self.store, self.operation, self.barrier) {
            (Some((word, old, new)), ..) => write!(f, "stored {new:#x} over {old:#x} at {word:#x}")?,
            (_, Some(operation), _) => write!(f, "executed {operation}")?,
            (.., Some(barrier)) => write!(f, "executed {barrier}")?,
            _ => write!(f, "{}", self.act())?,
        }
        writeln!(f, " (address {:#x}).", self.address)?;
        if let Some(cached) = &self.cached {
            let cpus: Vec<_> = (0..64).filter(|cpu| self.cpus >> cpu & 1 == 1).collect();
            let holders = if cpus.is_empty() { String::new() } else { format!(" on CPUs {cpus:?}") };
            writeln!(f, "  May still be cached{holders}: {cached}.")?;
        }
        for (entry, root) in self.also.iter().take(MOST_NAMED) {
            writeln!(f, "  There leads, from the root {root:#x}: {entry}.")?;
        }
        if let Some(more @ 1..) = self.also.len().checked_sub(MOST_NAMED) {
            writeln!(f, "  And {more} more.")?;
        }
        if self.cpus == 0 && !self.also.is_empty() {
            writeln!(f, "  No CPU walks there now: the next one that does comes to it.")?;
        }
        if let Some(origin) = self.origin {
            if let Some(word) = origin.word {
                names.writer(f, self, word, "What it came from was stored over")?;
            }
            write!(f, "  It went out of reach at ")?;
            names.event(f, origin.event)?;
            write!(f, " on CPU {}", origin.cpu)?;
            match origin.word {
                Some(word) => writeln!(f, ", when the store to {word:#x} was complete.")?,
                None => writeln!(f, ".")?,
            }
        }
        if let Some(other) = &self.other {
            writeln!(f, "  It meets: {other}.")?;
        }
        if let Some(reason) = self.reason {
            writeln!(f, "  They differ in {reason}.")?;
        }
        if let (Missing::Visibility(word), None) = (self.missing, self.store) {
            names.writer(f, self, word, "What a walk may miss was stored")?;
        }
        if self.missing != Missing::None {
            write!(f, "  Missing: ")?;
            self.missing.tell(f, names)?;
            writeln!(f, ".")?;
        }
        write!(f, "  Hardware could: {}.", self.consequence())
    }
}

impl Finding {
    /// What the CPU did, where it was no instruction.
    const fn act(&self) -> &'static str {
        match self.rule {
            Rule::Reuse if matches!(self.missing, Missing::NewTable(_)) => "let walks come back to it",
            Rule::Reuse => "gave it away",
            Rule::StageOrder => "relied on stage 2 alone",
            Rule::Revocation => "took it to be revoked",
            Rule::NotVisible => "used it",
            Rule::Encoding if matches!(self.missing, Missing::Level(_)) => "executed an MSR",
            Rule::Encoding => "executed no TLBI of the architecture",
            _ => "went on",
        }
    }

    const fn consequence(&self) -> &'static str {
        match self.rule {
            Rule::Overlap | Rule::BreakExpected | Rule::Contiguous | Rule::NoTranslation => {
                "raise a TLB conflict abort, use either entry, or at BBM level 0 a mixture of both"
            }
            Rule::Reuse => {
                "read or write the memory's next owner through the old entry, or walk its data as descriptors"
            }
            Rule::Revocation => "go on allowing the access",
            Rule::LostUpdate => "set the access flag or the dirty state between the read and the store, which loses it",
            Rule::Encoding => self.misencoded(),
            Rule::OwnGround => "fault on the next instruction, or on the access that would repair it",
            Rule::NotVisible => "fault, or walk what was there before",
            Rule::Recovery => "raise the conflict abort again, for ever",
            Rule::StageOrder => "use a combined entry made from the old stage 2",
            Rule::Lint(_) => "do the same without it, in less time",
        }
    }
}

impl Finding {
    /// What hardware makes of a TLBI that is wrong.
    const fn misencoded(&self) -> &'static str {
        match self.missing {
            Missing::Level(_) | Missing::Encoding(Some(Flaw::Undefined)) => {
                "take an exception, because the instruction is UNDEFINED"
            }
            Missing::Encoding(Some(Flaw::ReservedHint)) => "take it for no hint, or for one of a later architecture",
            Missing::Encoding(Some(Flaw::MisalignedBase)) => "invalidate nothing, or any other range",
            Missing::Encoding(Some(Flaw::Wraps)) => "leave what lies beyond the end as it was",
            _ => "invalidate nothing",
        }
    }
}

impl Missing {
    fn tell(&self, f: &mut fmt::Formatter<'_>, names: &dyn Names) -> fmt::Result {
        match self {
            Self::None => write!(f, "nothing known"),
            Self::Break => write!(f, "an invalid descriptor in between, a DSB, a TLBI and a DSB"),
            Self::DsbAfterStore(cpu) => write!(f, "a DSB by CPU {cpu} after its store and before the TLBI"),
            Self::Tlbi => write!(f, "a TLBI that reaches the entry"),
            Self::BetterTlbi(near) => {
                write!(f, "the {} of ", near.operation)?;
                names.event(f, near.event)?;
                write!(f, " did not do it: {}", near.why)
            }
            Self::DsbAfterTlbi(cpu) => {
                write!(f, "a DSB for loads and stores, of the TLBI's domain, by CPU {cpu} that issued it")
            }
            Self::Synchronization(cpu) => write!(f, "an ISB (or exception) on CPU {cpu}"),
            Self::Repetition => write!(f, "the TLBI and its DSB once more: one of these CPUs needs both twice"),
            Self::Visibility(word) => write!(
                f,
                "a DSB by the CPU that stored to {word:#x}, and an ISB for fetches, or where FEAT_ETS2 is missing"
            ),
            Self::Stage1AfterStage2 => write!(f, "a stage-1 invalidation after the stage-2 one and its DSB"),
            Self::Exchange => write!(f, "a compare-and-exchange"),
            Self::Level(level) => write!(f, "{}: below that the instruction is UNDEFINED", level.name()),
            Self::NewTable(event) => {
                write!(f, "a table that is not somebody else's: this one was given away at ")?;
                names.event(f, *event)
            }
            Self::WholeInvalidation => write!(f, "an ALL or VMALL form for the regime"),
            Self::Encoding(flaw) => match flaw {
                Some(flaw) => write!(f, "a correct encoding: {flaw}"),
                None => {
                    write!(f, "a correct encoding: its level or granule hint is not that of any leaf it would meet")
                }
            },
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Context => "its regime or VMID is another",
            Self::Address => "its address is another",
            Self::Asid => "its ASID is another",
            Self::NotLastLevel => "it is of the last level only, and this is a table",
            Self::Hint => "its level or granule hint is wrong, so nothing need be invalidated",
            Self::Xs => "it is an nXS form, and the memory has the XS attribute",
            Self::Stage2Only => "it removes stage-2 entries only, not those combined with stage 1",
            Self::Scope => "it is local to its CPU",
            Self::Feature => "a CPU without its feature (FEAT_TLBIRANGE, FEAT_XS) need not act on it",
            Self::Misencoded => "its operand is an address that is not shifted by 12",
        })
    }
}
