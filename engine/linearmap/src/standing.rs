//! Where the system stands: which CPUs walk the map, what all of them tolerate, and so by which way leaves change size.
//!
//! ```text
//! alone ──▶ starting others ──▶ settled ──▶ a CPU arrives late: it waits at the gate, is admitted, the level falls
//! ```
//! A CPU walks the map from when it is admitted, never before: so every moment of this line has a way, and none refuses.

use pagetable::{Census, Licence, TlbFeatures, Tolerance};

/// What is to be known of a CPU before it walks the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// What it tolerates: see [`crate::Levels::tolerance`].
    pub tolerance: Tolerance,
    /// What its TLB maintenance can do, and whether each TLBI must be repeated.
    pub tlb: TlbFeatures,
}

/// How far boot has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The boot CPU alone runs.
    Alone,
    /// Others are being started.
    Starting,
    /// All CPUs run that were to. Whoever comes now is late.
    Settled,
}

/// How a live leaf changes size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// In place: every CPU tolerates it.
    InPlace,
    /// In a window, by the one CPU that there is.
    Window,
    /// While other CPUs are parked.
    Park,
}

/// The CPUs that walk the map.
#[derive(Debug)]
pub struct Standing {
    stage: Stage,
    census: Census,
    tlb: TlbFeatures,
    late: usize,
}

impl Standing {
    /// The boot CPU alone.
    pub(crate) const fn new(first: Cpu) -> Self {
        Self { stage: Stage::Alone, census: Census::new(first.tolerance), tlb: first.tlb, late: 0 }
    }

    /// How far boot has come.
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// The CPUs that walk the map, and what all of them tolerate.
    pub const fn census(&self) -> &Census {
        &self.census
    }

    /// What the TLB maintenance of all of them can do.
    pub const fn tlb(&self) -> TlbFeatures {
        self.tlb
    }

    /// How many of them came late.
    pub const fn late(&self) -> usize {
        self.late
    }

    /// Boot goes on to `stage`; it never goes back.
    pub(crate) fn reach(&mut self, stage: Stage) {
        self.stage = self.stage.max(stage);
    }

    /// A CPU walks the map from now on.
    pub(crate) fn admit(&mut self, cpu: Cpu) {
        self.late += usize::from(self.stage == Stage::Settled);
        self.reach(Stage::Starting);
        self.census.admit(cpu.tolerance);
        self.tlb = TlbFeatures {
            range: self.tlb.range && cpu.tlb.range,
            level_hints: self.tlb.level_hints && cpu.tlb.level_hints,
            // One CPU that may complete a broadcast too early makes every TLBI that is left worth repeating.
            repeat: self.tlb.repeat || cpu.tlb.repeat,
        };
    }

    /// The way in which leaves change size now, with the licence that it takes to plan that.
    pub(crate) fn way(&self) -> (Way, Licence<'_>) {
        // To count what a plan takes is to change nothing: who makes the change gives a licence of his own.
        let planned = Licence::break_before_make(&self.census);
        match self.census.tolerated() {
            Some(licence) => (Way::InPlace, licence),
            None if self.census.cpus() == 1 => (Way::Window, planned),
            None => (Way::Park, planned),
        }
    }
}
