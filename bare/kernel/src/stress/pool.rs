//! The pages that are changed: spread over large blocks of free memory, in clusters of neighbours.
//!
//! ```text
//! block  |####        ####        ####  …|   16 clusters of 16 pages, far apart, in each of some blocks of one size
//! ```

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use hardware::probe;
use kerncore::list::List;
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::{facts, page_size};
use crate::fallible::List as _;
use crate::memory::pages;

/// Pages of a cluster.
pub(super) const CLUSTER: usize = 16;
const CLUSTERS: usize = 16;
const IN_BLOCK: usize = CLUSTER * CLUSTERS;
const MOST_BLOCKS: usize = 16;
/// The largest and the smallest block that is taken: `1 << order` pages.
const ORDERS: core::ops::RangeInclusive<usize> = 8..=13;

/// Pages of free memory.
pub(super) struct Pool {
    blocks: List<PhysAddr, MOST_BLOCKS>,
    order: usize,
    /// For each page how often it was claimed and let go: odd while it is claimed.
    claims: Vec<AtomicU32>,
}

impl Pool {
    /// Takes blocks of one in `parts` of free memory at most, the largest of which there are `fewest`, and fills their pages.
    pub(super) fn new(parts: u64, fewest: u64) -> Option<Self> {
        let most = pages::with_pages(|pages| pages.free_bytes()) / parts;
        let bytes = |order: usize| page_size().size_bytes() << order;
        let order = ORDERS.rev().find(|order| bytes(*order) * fewest <= most)?;
        let mut blocks = List::new(PhysAddr::new(0));
        for _ in 0..most / bytes(order) {
            match pages::allocate(order) {
                Some(block) if blocks.push(block).is_ok() => {}
                Some(block) => pages::free(block, order),
                None => break,
            }
        }
        let mut claims = Vec::new();
        let is_room = claims.try_reserve_exact(blocks.len() * IN_BLOCK).is_ok();
        let mut pool = Self { blocks, order, claims };
        if !is_room {
            pool.free();
            return None;
        }
        pool.claims.try_extend((0..pool.pages()).map(|_| AtomicU32::new(0))).ok()?;
        (0..pool.pages()).for_each(|page| pool.fill(page));
        (pool.pages() > 0).then_some(pool)
    }

    /// How many pages there are.
    pub(super) fn pages(&self) -> usize {
        self.blocks.len() * IN_BLOCK
    }

    /// Where page `page` is in the linear map.
    pub(super) fn address(&self, page: usize) -> VirtAddr {
        let (block, in_block) = (self.blocks[page / IN_BLOCK], page % IN_BLOCK);
        let apart = (1usize << self.order) / CLUSTERS;
        let number = in_block / CLUSTER * apart + in_block % CLUSTER;
        facts().linear.address(block + number as u64 * page_size().size_bytes())
    }

    /// Claims a page, unless somebody has.
    pub(super) fn claim(&self, page: usize) -> bool {
        let seen = self.claims[page].load(Ordering::Relaxed);
        let claim =
            |seen: u32| self.claims[page].compare_exchange(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed);
        seen.is_multiple_of(2) && claim(seen).is_ok()
    }

    /// Lets go of a page that was claimed.
    pub(super) fn release(&self, page: usize) {
        self.claims[page].fetch_add(1, Ordering::Release);
    }

    /// What `look` sees of a page that nobody has claimed meanwhile.
    pub(super) fn look<T>(&self, page: usize, look: impl FnOnce(VirtAddr) -> T) -> Option<T> {
        let before = self.claims[page].load(Ordering::Acquire);
        if !before.is_multiple_of(2) {
            return None;
        }
        let seen = look(self.address(page));
        // The look is over before the second load.
        core::sync::atomic::fence(Ordering::SeqCst);
        (self.claims[page].load(Ordering::Relaxed) == before).then_some(seen)
    }

    /// Whether a page that can be read holds what it is filled with.
    pub(super) fn is_right(&self, address: VirtAddr) -> bool {
        let last = address + (page_size().size_bytes() - 8);
        [address, last].into_iter().all(|word| {
            // SAFETY: memory of this pool, or, hidden, nothing.
            unsafe { probe::read(word) == Ok(value(word)) }
        })
    }

    /// Whether every page can be read, and holds what it is filled with.
    pub(super) fn is_whole(&self) -> bool {
        (0..self.pages()).all(|page| self.is_right(self.address(page)))
    }

    /// Gives the memory back.
    pub(super) fn free(self) {
        self.blocks.iter().for_each(|block| pages::free(*block, self.order));
    }

    fn fill(&self, page: usize) {
        let address = self.address(page);
        for word in [address, address + (page_size().size_bytes() - 8)] {
            // SAFETY: memory of this pool, which nobody else has yet.
            unsafe { (word.bits() as *mut u64).write_volatile(value(word)) };
        }
    }
}

/// What a word of a page is filled with.
pub(super) fn value(word: VirtAddr) -> u64 {
    word.bits() ^ 0x9e37_79b9_7f4a_7c15
}
