//! The linear map as a kernel changes it, a page at a time: the rows that have no peer, each a pair of changes.
//!
//! ```text
//!   32 MiB   │ 2 MiB │ 2 MiB │  …  │ 2 MiB │ pages │     blocks that are no group and no larger leaf, because the last
//!              random pages lie in these    one stays read-only
//! ```

use std::cell::RefCell;

use linearmap::{Calls, Context, Cpu, Embedder, Leaves, LinearMap, Lock, Map, Pages, Region, State, paint};
use pagetable::{El1, Licence, PageTable, Reserve, Tolerance};
use seed::mix;
use vmsa::{BbmLevel, Granule, Granule4K, PhysAddr, VirtAddr};

use crate::case::{Case, Row};
use crate::memory::{Counting, Machine, frames_in_use, give_frame, reserve_arena, take_frame};
use crate::ours::Measured;
use crate::region::bench_measured_region;
use crate::rows::{INPUT, OUTPUT, Outcome, Scale, addresses};

/// What would be one contiguous group, if its last block were whole.
const GROUP: u64 = 32 << 20;
const BLOCK: u64 = 2 << 20;
/// Every CPU's.
const CPU: Cpu = Cpu { tolerance: Tolerance::new(BbmLevel::Level3, false), tlb: El1::REGIME.tlb };

/// A kernel with nothing but memory.
struct Kernel(Counting);

impl Pages for Kernel {
    fn allocate(&self) -> Option<PhysAddr> {
        Some(PhysAddr::new(take_frame(Granule4K::SIZE_BYTES)))
    }

    fn free(&self, table: PhysAddr) {
        give_frame(table.bits());
    }
}

impl Calls for Kernel {
    fn in_window(&self, _: &mut dyn FnMut(&Licence<'_>)) {
        unreachable!("every CPU tolerates that leaves change size");
    }
}

impl Embedder for Kernel {
    type Granule = Granule4K;
    type Platform = Counting;
    type Lock = Alone<State<Granule4K>>;

    fn platform(&self) -> &Counting {
        &self.0
    }
}

/// A lock that nobody contends for.
struct Alone<T>(RefCell<T>);

impl<T> Lock for Alone<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self(RefCell::new(held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

/// Memory of `bytes`, painted; other CPUs have come since, all of which tolerate that leaves change size.
fn painted(bytes: u64) -> LinearMap<Kernel> {
    let kernel = Kernel(Counting::default());
    let (geometry, regime, mut reserve) = (El1::geometry::<Granule4K>(), El1::REGIME, Reserve::new());
    reserve.add(kernel.platform(), kernel.allocate().expect("a frame"));
    let table = PageTable::offline(kernel.platform(), geometry, regime, &mut reserve);
    let mut table = table.expect("a root");
    let physical = PhysAddr::new(OUTPUT)..PhysAddr::new(OUTPUT + bytes);
    let regions = [Region { physical, attributes: El1::data() }];
    let offset = INPUT.wrapping_sub(OUTPUT);
    paint(&mut table, kernel.platform(), &kernel, offset, &regions, Leaves::Largest).expect("there is room");
    let (root, range) = (table.publish().root(), VirtAddr::new(INPUT)..VirtAddr::new(INPUT + bytes));
    let map = Map { root, geometry, regime, range, leaves: Leaves::Largest, memory_bytes: bytes };
    let map = LinearMap::new(kernel, map, CPU).expect("the map can be had");
    map.start_others();
    map.admit(CPU);
    map.settle();
    map.refill();
    map
}

/// Runs a row.
pub(crate) fn run(case: Case, scale: Scale) -> Outcome {
    reserve_arena();
    let map = painted(scale.protected);
    let range = |page: u64| [VirtAddr::new(page)..VirtAddr::new(page + Granule4K::SIZE_BYTES)];
    for group in 0..scale.protected / GROUP {
        let last = INPUT + (group + 1) * GROUP - BLOCK;
        map.set_memory_ro(&range(last), Context::MayWait).expect("it is mapped");
    }
    map.heal_all();
    let random = addresses(scale.changes, scale.protected, Granule4K::SIZE_BYTES);
    let pages: Vec<u64> =
        random.into_iter().map(|page| if page % GROUP < GROUP - BLOCK { page } else { page - BLOCK }).collect();
    let protect = |page: u64, context: Context| {
        map.set_memory_ro(&range(page), context).expect("it is mapped");
        map.set_memory_rw(&range(page), context).expect("it is mapped");
    };
    let hide = |page: u64| {
        map.set_direct_map_valid(&range(page), false, Context::Atomic).expect("it is mapped");
        map.set_direct_map_valid(&range(page), true, Context::Atomic).expect("it is mapped");
    };
    if case.row != Row::LinearBlock {
        pages.iter().for_each(|&page| protect(page, Context::MayWait));
    }
    let before = map.embedder().0.tlbis();
    bench_measured_region(&mut || match case.row {
        Row::LinearBlock => pages.iter().for_each(|&page| {
            protect(page, Context::Atomic);
            map.heal_all();
        }),
        Row::LinearHidden => pages.iter().for_each(|&page| hide(page)),
        _ => pages.iter().for_each(|&page| protect(page, Context::MayWait)),
    });
    let tlbis = map.embedder().0.tlbis() - before;
    let mut outcome = Outcome { units: pages.len() as u64, found: 0, checksum: 0, frames: frames_in_use(), tlbis };
    for &page in &pages {
        let found = map.view().translate(VirtAddr::new(page));
        outcome.found += u64::from(found.is_some());
        let bits = found.map_or(0, |found| found.output.bits() ^ found.descriptor.bits());
        outcome.checksum ^= mix(page ^ mix(bits));
    }
    outcome
}
