//! A window: leaves of the linear map are broken before they are made anew, and the one CPU that runs must not need them.
//!
//! ```text
//! TTBR0_EL1   identity text ──▶ the workshop: all memory but text and constants ──▶ identity text
//!                               the change, tables reached by the workshop
//! ```
//! Code, stack, plan and vectors are in the image and in the area of stacks, whose leaves no window touches. A list of ranges may be on the
//! heap: the next one is read by the linear map, in which what was broken is made again by then, and no list hides where it lies. Exceptions
//! are masked: the lock of the map sees to that.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::{timer, translation};

use crate::facts::facts;
use crate::memory::reach::Reach;

/// The workshop's ASID.
pub(crate) const ASID: u16 = 1;

/// The longest window so far, in ticks of the counter.
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// Runs `change` in a window. No other CPU runs, or all of them are parked; this one holds the lock of the map.
pub(crate) fn run(reach: &Reach, change: impl FnOnce()) {
    let start = timer::read_counter();
    // SAFETY: the workshop is a map of the lower half, by the granule and the layout that this CPU translates by, and is complete
    // and changed under the lock of the map alone. It has an ASID of its own. What runs until the old map is back is linked in the upper half.
    let before = unsafe { translation::exchange_lower(facts().workshop.ttbr0) };
    reach.in_workshop(change);
    // SAFETY: it is what was there.
    unsafe { translation::exchange_lower(before) };
    LONGEST.fetch_max(timer::read_counter() - start, Ordering::Relaxed);
}

/// The longest window so far, in ticks of the counter.
pub(crate) fn longest() -> u64 {
    LONGEST.load(Ordering::Relaxed)
}
