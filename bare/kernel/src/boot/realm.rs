//! Whether this is a realm, before any device is touched: its devices are at other addresses. Then its memory becomes RAM.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::psci::Conduit;
use kerncore::devicetree::Psci;
use kerncore::memory_map::{Kind, MemoryMap};
use kerncore::range::PhysicalRange;
use kerncore::realm::{self, State, Stopped, Why, Wish};
use vmsa::{PageSize, PhysAddr};

use crate::console::say;
use crate::cpus::firmware;
use crate::facts::Realm;
use crate::memory::handed::Smc;
use crate::memory::pages::Absent;

/// What the RMM writes the realm's configuration to.
#[repr(C, align(4096))]
struct Granule([AtomicU64; 512]);

static CONFIGURATION: Granule = Granule([const { AtomicU64::new(0) }; 512]);

/// Asks the RMM, if there may be one: a realm is entered at EL1, and calls by SMC. Memory is at its physical address.
pub(super) fn find(exception_level: u64, psci: Option<&Psci>) -> Option<Realm> {
    let may_be = exception_level == 1 && psci.is_some_and(|psci| firmware::conduit(psci) == Conduit::Smc);
    let granule = PhysAddr::new(&raw const CONFIGURATION as u64);
    let read = || CONFIGURATION.0[0].load(Ordering::Relaxed);
    let bits = if may_be { realm::find(&Smc, granule, read) } else { None };
    bits.map(|bits| Realm { address_bits: bits })
}

/// Has all free memory be RAM. What the host does not give is not used.
pub(super) fn claim(map: &mut MemoryMap, page_size: PageSize) {
    let mut lost = Absent::new(PhysicalRange::EMPTY);
    for range in map.free(page_size) {
        let mut rest = range;
        while !rest.is_empty() {
            let (why, end) = claim_first(rest);
            if let Some(why) = why {
                // Pages that it shares are not used either.
                let start = rest.start.align_down(page_size.size_bytes());
                let end = end.align_up(page_size.size_bytes()).unwrap_or(end);
                let missing = PhysicalRange::new(start, end);
                say!("warning: memory: {missing} does not become RAM ({why}); unused");
                lost.push(missing).expect("a host that tears memory to so many pieces is of no use");
            }
            rest.start = end;
        }
    }
    lost.iter().for_each(|range| map.mark(*range, Kind::Lost).expect("as above"));
}

/// Has what begins a range be RAM: where that ends, and why it is not, if so.
fn claim_first(range: PhysicalRange) -> (Option<Why>, PhysAddr) {
    match realm::state(&Smc, range) {
        Some((State::Ram, end)) => (None, end),
        // A host that takes memory away before it is asked will not be trusted with that memory again.
        Some((State::Destroyed | State::Other, end)) => (Some(Why::Rejected), end),
        Some((State::Empty, end)) => {
            let part = PhysicalRange::new(range.start, end);
            match realm::hand_over(&Smc, part, Wish::RamAtBoot) {
                Ok(()) => (None, end),
                Err(Stopped { reached, .. }) if reached > range.start => (None, reached),
                Err(Stopped { why, .. }) => (Some(why), end),
            }
        }
        None => (Some(Why::Nonsense(range.start.bits())), range.end),
    }
}
