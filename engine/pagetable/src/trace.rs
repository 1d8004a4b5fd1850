//! What the engine asks of a machine, told line by line in the format that `vellum judge` reads.
//!
//! ```text
//! engine ──▶ Traced ──▶ the platform that does it
//!               └──▶ Line, to a sink that prints or keeps it
//! ```
//! The sink hears of a store, barrier or TLBI before it is made, and of a load or exchange after: so that no CPU's line
//! can overtake what it depends on. A sink that several CPUs share writes each line whole.

use core::fmt;

use vmsa::{Descriptor, Maintenance};

use crate::platform::{Platform, Slot};
use crate::step::Step;

/// One line of a trace, printed without its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The CPU that acts.
    pub cpu: usize,
    /// What it does.
    pub step: Step,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.cpu)?;
        let at = |slot: Slot| slot.address().bits();
        match self.step {
            Step::Load(slot, found) => write!(f, "load {:#x} {:#x}", at(slot), found.bits()),
            Step::Store(slot, new) => write!(f, "store {:#x} {:#x}", at(slot), new.bits()),
            Step::Exchange { slot, expected, new, found } => {
                write!(f, "exchange {:#x} {:#x} {:#x} {:#x}", at(slot), expected.bits(), new.bits(), found.bits())
            }
            Step::Maintain(operation) => operation.fmt(f),
        }
    }
}

/// A platform that does what another does, and tells of it.
#[derive(Clone, Debug)]
pub struct Traced<P: Platform, S: Fn(Line)> {
    platform: P,
    cpu: usize,
    sink: S,
}

impl<P: Platform, S: Fn(Line)> Traced<P, S> {
    /// The platform of CPU `cpu`, whose every step `sink` hears of.
    pub const fn new(platform: P, cpu: usize, sink: S) -> Self {
        Self { platform, cpu, sink }
    }

    fn tell(&self, step: Step) {
        (self.sink)(Line { cpu: self.cpu, step });
    }
}

impl<P: Platform, S: Fn(Line)> Platform for Traced<P, S> {
    fn load(&self, slot: Slot) -> Descriptor {
        let found = self.platform.load(slot);
        self.tell(Step::Load(slot, found));
        found
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.tell(Step::Store(slot, descriptor));
        self.platform.store(slot, descriptor);
    }

    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        let result = self.platform.exchange(slot, old, new);
        let found = result.err().unwrap_or(old);
        self.tell(Step::Exchange { slot, expected: old, new, found });
        result
    }

    fn maintain(&self, operation: Maintenance) {
        self.tell(Step::Maintain(operation));
        self.platform.maintain(operation);
    }

    fn wait_for_views(&self) {
        self.platform.wait_for_views();
    }
}
