//! The CPUs that may walk the kernel's tables, and what all of them can do.
//!
//! A CPU counts from before firmware is asked to start it until it is known not to run. Until it has said what it is, it may
//! lack everything and need everything.

use core::sync::atomic::{AtomicU32, Ordering};

use hardware::lock::Lock;
use hardware::per_cpu::MAX_CPUS;
use pagetable::TlbFeatures;
use vmsa::{BbmLevel, IdRegisters, Midr};

use crate::memory::tables::CAUTIOUS;

/// What a CPU says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) affinity: u64,
    pub(crate) midr: Midr,
    pub(crate) id: IdRegisters,
}

#[derive(Clone, Copy)]
enum Walker {
    /// It does not run.
    Off,
    /// It may run, and has not said what it is.
    Unknown,
    Known(Identity),
}

static WALKERS: Lock<[Walker; MAX_CPUS]> = Lock::new([Walker::Off; MAX_CPUS]);
/// A bit for each CPU that runs and has said what it is.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// A bit for each CPU that runs and has said what it is.
pub(crate) fn running() -> u32 {
    RUNNING.load(Ordering::Acquire)
}

/// The CPUs that run, by number, and what they are.
pub(crate) fn identities() -> impl Iterator<Item = (usize, Identity)> {
    let walkers = WALKERS.with(|walkers| *walkers);
    (0..).zip(walkers).filter_map(|(index, walker)| match walker {
        Walker::Known(identity) => Some((index, identity)),
        Walker::Off | Walker::Unknown => None,
    })
}

/// A CPU may walk the tables from now on. Not while they are edited: [`crate::memory::kernel_table::admit`] sees to that.
pub(crate) fn admit(index: usize) {
    WALKERS.with(|walkers| walkers[index] = Walker::Unknown);
}

/// A CPU that was admitted is known not to run.
pub(crate) fn dismiss(index: usize) {
    WALKERS.with(|walkers| walkers[index] = Walker::Off);
}

/// A CPU that was admitted runs, and this is what it is.
pub(crate) fn note(index: usize, identity: Identity) {
    WALKERS.with(|walkers| walkers[index] = Walker::Known(identity));
    RUNNING.fetch_or(1 << index, Ordering::Release);
}

fn has_unknown() -> bool {
    WALKERS.with(|walkers| walkers.iter().any(|walker| matches!(walker, Walker::Unknown)))
}

/// What every CPU tolerates when a live leaf changes size, by what it says of itself.
pub(crate) fn bbm() -> BbmLevel {
    let weakest = identities().map(|(_, cpu)| cpu.id.bbm()).min();
    weakest.filter(|_| !has_unknown()).unwrap_or(BbmLevel::Level0)
}

/// What the TLB maintenance of every CPU can do.
pub(crate) fn tlb_features() -> TlbFeatures {
    if has_unknown() {
        return CAUTIOUS.tlb;
    }
    let all = TlbFeatures { range: true, level_hints: true, repeat: false };
    identities().fold(all, |features, (_, cpu)| TlbFeatures {
        range: features.range && cpu.id.has_range_invalidation(),
        level_hints: features.level_hints && cpu.id.has_level_hints(),
        repeat: features.repeat || cpu.midr.must_repeat_tlbi(),
    })
}
