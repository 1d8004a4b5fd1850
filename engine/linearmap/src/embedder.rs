//! What a kernel brings: its lock, its pages, its calls to other CPUs.

use core::ops::Range;

use pagetable::{Licence, Platform};
use vmsa::{Granule, PhysAddr, VirtAddr};

use crate::refused::NotParked;
use crate::state::State;

/// A lock that any context may take: interrupts are masked while it is held, and nothing is allocated.
///
/// A CPU that waits for it with interrupts masked answers calls to park meanwhile ([`Calls::park`]): whoever holds the lock may
/// be waiting for that.
pub trait Lock {
    /// What it guards.
    type Held;

    /// A lock of this.
    fn new(held: Self::Held) -> Self;

    /// Runs `body` with what it guards, which nobody else sees meanwhile.
    fn with<T>(&self, body: impl FnOnce(&mut Self::Held) -> T) -> T;
}

/// Where tables come from. Neither is called while the map's lock is held, so that both may take locks, wait, or change the map:
/// a kernel that hides free pages hides what it is given here.
pub trait Pages {
    /// A page for a table, in no other use, written through the map's platform from now on; `None` if there is none.
    fn allocate(&self) -> Option<PhysAddr>;

    /// Takes back what [`Self::allocate`] gave out, or what the map was painted with.
    fn free(&self, table: PhysAddr);
}

/// How leaves change size where not every CPU tolerates that. Both run `change` once, and give it the licence that what they did
/// is worth. The map's lock is held.
pub trait Calls {
    /// No other CPU runs. `change` breaks leaves before it makes them: [`Licence::break_before_make`] says what this promises of
    /// the code, the stack and the tables that the change is made by. Exceptions are masked meanwhile.
    fn in_window(&self, change: &mut dyn FnMut(&Licence<'_>));

    /// Keeps other CPUs off the tables while `change` is made: [`Licence::parked`]. Who does not answer is named before
    /// `change` is run. A kernel that cannot park refuses so what would take it, as is done here.
    fn park(&self, change: &mut dyn FnMut(&Licence<'_>)) -> Result<(), NotParked> {
        let _ = change;
        Err(NotParked(None))
    }

    /// Whether somebody beneath wants to hear of live leaves that change size in place: [`Self::announce`] is called then.
    fn announces(&self) -> bool {
        false
    }

    /// Runs `resize`, during which these leaves change size in place, until every TLB has forgotten what they were. Called once for
    /// all that changes together, and not where nothing changes size, or a leaf is broken before it is made: no TLB holds both
    /// then. Nor where CPUs do not keep it meanwhile (nT). The map's lock is held.
    fn announce(&self, leaves: &[Range<VirtAddr>], resize: &mut dyn FnMut()) {
        let _ = leaves;
        resize();
    }
}

/// A kernel, as its linear map sees it.
pub trait Embedder: Pages + Calls {
    /// The page size.
    type Granule: Granule;
    /// How tables are read and written.
    type Platform: Platform;
    /// The lock of the map.
    type Lock: Lock<Held = State<Self::Granule>>;

    /// The platform.
    fn platform(&self) -> &Self::Platform;
}
