//! The CPUs that run, and what they say of themselves. Who walks the kernel's tables, the linear map knows.

use core::sync::atomic::{AtomicU32, Ordering};

use hardware::per_cpu::MAX_CPUS;
use linearmap::{Cpu, Levels};
use pagetable::TlbFeatures;
use vmsa::{IdRegisters, Midr};

use crate::facts::facts;
use crate::locks::{Lock, order};

/// What a CPU says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) affinity: u64,
    pub(crate) midr: Midr,
    pub(crate) id: IdRegisters,
}

impl Identity {
    /// What of CPU `index` counts before it walks the kernel's tables.
    pub(crate) fn walker(&self, index: usize) -> Cpu {
        let Self { midr, id, .. } = self;
        let levels = Levels { all: facts().options.bbm_of(index), single: &[] };
        let tlb = TlbFeatures {
            range: id.has_range_invalidation(),
            level_hints: id.has_level_hints(),
            repeat: midr.must_repeat_tlbi(),
        };
        Cpu { tolerance: levels.tolerance(index, id, *midr, facts().handles_conflicts), tlb }
    }
}

static IDENTITIES: Lock<[Option<Identity>; MAX_CPUS]> = Lock::new(order::IDENTITIES, [None; MAX_CPUS]);
/// A bit for each CPU that runs and has said what it is.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// A bit for each CPU that runs and has said what it is.
pub(crate) fn running() -> u32 {
    RUNNING.load(Ordering::Acquire)
}

/// The CPUs that run, by number, and what they are.
pub(crate) fn identities() -> impl Iterator<Item = (usize, Identity)> + Clone {
    let identities = IDENTITIES.with(|identities| *identities);
    (0..).zip(identities).filter_map(|(index, identity)| Some((index, identity?)))
}

/// A CPU runs, and this is what it is.
pub(crate) fn note(index: usize, identity: Identity) {
    IDENTITIES.with(|identities| identities[index] = Some(identity));
    RUNNING.fetch_or(1 << index, Ordering::Release);
}
