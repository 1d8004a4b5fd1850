//! Secret memory: pages that the linear map does not lead to while they are held, so that no stray read of the kernel's finds what is
//! in them. Their holder reaches them by a mapping of its own.
//!
//! ```text
//! take ── given out ── hidden, in one list ── noted │ release ── shown ── wiped ── free; now and then some of the map heals
//! ```

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use linearmap::{Context, Wanted};
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::{facts, page_size};
use crate::memory::{going, linear_map, pages};

/// Releases after which so many slots of the map are looked at, to be folded.
const RELEASES: u64 = 64;
const SLOTS: usize = 16;

static RELEASED: AtomicU64 = AtomicU64::new(0);
/// Pages that could not be shown again. They stay hidden, and nobody gets them.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Pages that lie together, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Secret {
    first: PhysAddr,
    order: usize,
}

/// Takes a run of `1 << order` pages for each of `orders`: all of them, or none.
pub(crate) fn take<const N: usize>(orders: [usize; N]) -> Option<[Secret; N]> {
    take_prepared(orders, |_, _| {})
}

/// `1 << order` pages of zeros.
pub(crate) fn take_zeroed(order: usize) -> Option<Secret> {
    take_prepared([order], pages::wipe).map(|[secret]| secret)
}

fn take_prepared<const N: usize>(orders: [usize; N], prepare: impl Fn(PhysAddr, usize)) -> Option<[Secret; N]> {
    let mut runs = orders.map(|order| (None, order));
    let is_whole = runs.iter_mut().all(|(first, order)| {
        *first = pages::allocate(*order).inspect(|first| prepare(*first, *order));
        first.is_some()
    });
    let ranges = runs.map(|(first, order)| range(first.unwrap_or(PhysAddr::new(0)), order));
    if !is_whole || linear_map::get().change(&ranges, Wanted::Hidden, Context::MayWait).is_err() {
        let taken = runs.into_iter().filter_map(|(first, order)| Some((first?, order)));
        taken.for_each(|(first, order)| pages::free(first, order));
        return None;
    }
    Some(runs.map(|(first, order)| {
        let first = first.expect("the list is whole");
        pages::secret().inspect(|set| set.insert(first, 1 << order));
        Secret { first, order }
    }))
}

/// Whether a page is held.
pub(crate) fn holds(address: PhysAddr) -> bool {
    pages::secret().is_some_and(|set| set.contains(address))
}

/// Pages that are held, and those that were lost.
pub(crate) fn counts() -> (usize, u64) {
    (pages::secret().map_or(0, |set| set.count()), LOST.load(Ordering::Relaxed))
}

fn range(first: PhysAddr, order: usize) -> Range<VirtAddr> {
    let start = facts().linear.address(first);
    start..start + (page_size().size_bytes() << order)
}

impl Secret {
    /// The physical address of its first page.
    pub(crate) fn first(&self) -> PhysAddr {
        self.first
    }

    pub(crate) fn pages(&self) -> u64 {
        1 << self.order
    }

    /// Its addresses in the linear map, where a read faults.
    pub(crate) fn hidden(&self) -> Range<VirtAddr> {
        range(self.first, self.order)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        let Self { first, order } = *self;
        if going::make(&[(&[self.hidden()], Wanted::Shown)]).is_err() {
            LOST.fetch_add(1 << order, Ordering::Relaxed);
            return;
        }
        // Before anybody gets it, and before it is free: what was in it is nobody's.
        pages::wipe(first, order);
        pages::secret().inspect(|set| set.remove(first, 1 << order));
        pages::free(first, order);
        if RELEASED.fetch_add(1, Ordering::Relaxed) % RELEASES == RELEASES - 1 {
            linear_map::get().heal(SLOTS);
        }
    }
}
