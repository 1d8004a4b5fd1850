//! A kernel without a machine, for `linearmap` to make maps in: ordinary memory for tables, nobody beside.

use std::cell::RefCell;
use std::marker::PhantomData;

use linearmap::{Calls, Cpu, Embedder, LinearMap, Lock, Map, Pages, Refused, Region, State, paint};
use pagetable::{
    El1, HardwareUpdates, Licence, PageTable, Platform, Reserve, Scope, Slot, Summary, TlbFeatures, Tolerance,
};
use vmsa::{BbmLevel, Descriptor, Geometry, Granule, Maintenance, PhysAddr};

use crate::args::Policy;

/// The map of a host that pretends to be a kernel.
pub(super) type Live<G> = LinearMap<Host<G>>;

/// Tables in memory of our own, from one page above 0 on.
pub(super) struct Tables<G> {
    tables: RefCell<Vec<Box<[u64]>>>,
    granule: PhantomData<G>,
}

impl<G: Granule> Tables<G> {
    /// Runs `body` on the place of a descriptor.
    fn with<T>(&self, slot: Slot, body: impl FnOnce(&mut u64) -> T) -> T {
        let address = slot.address().bits();
        let table = (address >> G::SHIFT) as usize - 1;
        body(&mut self.tables.borrow_mut()[table][(address % G::SIZE_BYTES) as usize / size_of::<u64>()])
    }
}

impl<G: Granule> Platform for Tables<G> {
    fn load(&self, slot: Slot) -> Descriptor {
        self.with(slot, |word| Descriptor::new(*word))
    }

    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.with(slot, |word| *word = descriptor.bits());
    }

    fn exchange(&self, slot: Slot, _: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        // Nobody else writes: the slot holds what was loaded.
        self.store(slot, new);
        Ok(())
    }

    fn maintain(&self, _: Maintenance) {}
}

/// What a kernel brings.
pub(super) struct Host<G> {
    tables: Tables<G>,
    spare: RefCell<Vec<PhysAddr>>,
}

/// A lock that nobody else wants.
pub(super) struct Alone<T>(RefCell<T>);

impl<T> Lock for Alone<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self(RefCell::new(held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}

impl<G: Granule> Pages for Host<G> {
    fn allocate(&self) -> Option<PhysAddr> {
        self.spare.borrow_mut().pop().or_else(|| {
            let mut tables = self.tables.tables.borrow_mut();
            tables.push(vec![0; G::SIZE_BYTES as usize / size_of::<u64>()].into());
            Some(PhysAddr::new((tables.len() as u64) << G::SHIFT))
        })
    }

    fn free(&self, table: PhysAddr) {
        self.spare.borrow_mut().push(table);
    }
}

impl<G: Granule> Calls for Host<G> {
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
        change(&Licence::break_before_make(&()));
    }
}

impl<G: Granule> Embedder for Host<G> {
    type Granule = G;
    type Platform = Tables<G>;
    type Lock = Alone<State<G>>;

    fn platform(&self) -> &Tables<G> {
        &self.tables
    }
}

/// A CPU that tolerates that leaves change size.
const CPU: Cpu = Cpu {
    tolerance: Tolerance::new(BbmLevel::Level3, false),
    tlb: TlbFeatures { range: true, level_hints: true, repeat: false },
};

/// Paints these regions at `offset` above their physical addresses, its reserve full.
pub(super) fn painted<G: Granule>(
    geometry: Geometry<G>,
    offset: u64,
    regions: &[Region],
    policy: Policy,
) -> Result<Live<G>, Refused> {
    let tables = Tables { tables: RefCell::default(), granule: PhantomData };
    let host = Host { tables, spare: RefCell::default() };
    let regime = El1 { scope: Scope::Global, tlb: TlbFeatures::NONE, hardware_updates: HardwareUpdates::None };
    let (leaves, mut reserve) = (policy.leaves(), Reserve::new());
    host.allocate().into_iter().for_each(|root| reserve.add(&host.tables, root));
    let mut table = PageTable::offline(&host.tables, geometry, regime, &mut reserve)?;
    for region in regions {
        // One by one, as the kernel does: neighbours that differ are no one leaf.
        paint(&mut table, &host.tables, &host, offset, core::slice::from_ref(region), leaves)?;
    }
    let table = table.publish();
    let (root, range) = (table.root(), table.view().range());
    let memory_bytes = regions.iter().map(|region| region.physical.end - region.physical.start).sum();
    let map = LinearMap::new(host, Map { root, geometry, regime, range, leaves, memory_bytes }, CPU)?;
    map.refill();
    Ok(map)
}

/// What all of a map is made of.
pub(super) fn summary<G: Granule>(map: &Live<G>) -> Result<Summary, Refused> {
    Ok(map.summary()?)
}
