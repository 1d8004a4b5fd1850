//! Pages that are shared with a realm's host one by one, from a pool of large pieces: see [`kerncore::pool`]. Elsewhere they are pages as any.

use kerncore::pool::{PIECE_BYTES, Pool};
use kerncore::range::PhysicalRange;
use spin::Once;
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::{facts, page_size};
use crate::locks::{Lock, order};
use crate::memory::handed::{self, NotHanded};
use crate::memory::pages;

static POOL: Once<Lock<Pool>> = Once::new();

fn pool() -> &'static Lock<Pool> {
    POOL.call_once(|| Lock::new(order::SHARED, Pool::new(page_size().shift())))
}

/// A page that the host can read and write, until it is dropped.
#[derive(Debug)]
pub(crate) struct Shared {
    page: PhysAddr,
}

impl Shared {
    /// Takes a page. What is in it is anything.
    pub(crate) fn take() -> Option<Self> {
        loop {
            if let Some(page) = pool().with(Pool::take) {
                return Some(Self { page });
            }
            // The host is called without the lock: another CPU may add a piece meanwhile, and then there are two.
            let (piece, order) = share_piece()?;
            if pool().with(|pool| pool.add(piece)).is_err() {
                take_back(piece, order);
                return None;
            }
        }
    }

    /// Where the kernel has it.
    pub(crate) fn address(&self) -> VirtAddr {
        facts().linear.address(self.page)
    }

    /// Where it is for the host's eyes: a realm's is at its unprotected address.
    pub(crate) fn output(&self) -> PhysAddr {
        self.page + facts().realm.map_or(0, |realm| realm.unprotected())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(piece) = pool().with(|pool| pool.free(self.page)) {
            take_back(piece, order_of(piece.size_bytes()));
        }
    }
}

/// Pieces of the pool, and pages of them that are taken.
pub(crate) fn counts() -> (usize, usize) {
    pool().with(|pool| pool.counts())
}

fn order_of(bytes: u64) -> usize {
    (bytes / page_size().size_bytes()).ilog2() as usize
}

/// The largest piece that there is memory for, shared.
fn share_piece() -> Option<(PhysicalRange, usize)> {
    let orders = (0..=order_of(PIECE_BYTES)).rev();
    let (order, first) = orders.into_iter().find_map(|order| Some((order, pages::allocate(order)?)))?;
    let piece = PhysicalRange::from_size(first, page_size().size_bytes() << order);
    match handed::set_memory_decrypted(piece) {
        Ok(()) => return Some((piece, order)),
        Err(NotHanded::Refused(_)) => pages::free(first, order),
        Err(NotHanded::Stopped(..) | NotHanded::NotShown(_)) => handed::free_rest(first, order),
    }
    None
}

fn take_back(piece: PhysicalRange, order: usize) {
    match handed::set_memory_encrypted(piece) {
        Ok(()) => pages::free(piece.start, order),
        // It is shared still. Where the pool has no room either, it stays so.
        Err(NotHanded::Refused(_)) => _ = pool().with(|pool| pool.add(piece)),
        Err(NotHanded::Stopped(..) | NotHanded::NotShown(_)) => handed::free_rest(piece.start, order),
    }
}
