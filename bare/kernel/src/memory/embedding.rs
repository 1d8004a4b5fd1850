//! What the kernel brings to its linear map: the lock, the pages, the ways of changing what not every CPU tolerates.

use core::marker::PhantomData;
use core::ops::Range;

use linearmap::{Calls, Embedder, NotParked, State};
use pagetable::Licence;
use vmsa::{BbmLevel, Granule, PhysAddr, VirtAddr};

use crate::cpus::{monitor, parking};
use crate::facts::facts;
use crate::locks::{Lock, order};
use crate::memory::reach::Reach;
use crate::memory::{pages, window};

/// The kernel, as its linear map sees it.
pub(crate) struct Kernel<G> {
    reach: Reach,
    granule: PhantomData<G>,
}

impl<G> Kernel<G> {
    pub(crate) const fn new(reach: Reach) -> Self {
        Self { reach, granule: PhantomData }
    }
}

/// The lock of the map, held with exceptions masked.
pub(crate) struct MapLock<T>(Lock<T>);

impl<T> linearmap::Lock for MapLock<T> {
    type Held = T;

    fn new(held: T) -> Self {
        Self(Lock::new(order::LINEAR_MAP, held))
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(body)
    }
}

impl<G> linearmap::Pages for Kernel<G> {
    fn allocate(&self) -> Option<PhysAddr> {
        pages::allocate_table()
    }

    fn free(&self, table: PhysAddr) {
        pages::free_table(table);
    }
}

impl<G> Calls for Kernel<G> {
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>)) {
        window::run(&self.reach, || change(&Licence::break_before_make(&self.reach)));
    }

    fn park(&self, change: &mut dyn FnMut(&Licence<'_>)) -> Result<(), NotParked> {
        let tolerated = parking::tolerated();
        let licence = Licence::parked(&self.reach, tolerated);
        parking::run(|| match tolerated.level() {
            BbmLevel::Level0 => window::run(&self.reach, || change(&licence)),
            _ => change(&licence),
        })
    }

    fn announces(&self) -> bool {
        facts().has_monitor || parking::tolerated().level() == BbmLevel::Level2
    }

    fn announce(&self, leaves: &[Range<VirtAddr>], resize: &mut dyn FnMut()) {
        monitor::announce(leaves, resize);
    }
}

impl<G: Granule> Embedder for Kernel<G> {
    type Granule = G;
    type Platform = Reach;
    type Lock = MapLock<State<G>>;

    fn platform(&self) -> &Reach {
        &self.reach
    }
}
