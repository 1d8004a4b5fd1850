//! What `memfd_secret` makes: pages that the linear map does not lead to. Programs map them; nobody reads or writes the file.
//!
//! ```text
//!  pieces   ▐1▐1▐ 2 ▐   4   ▐       8       ▐ …     each hidden by one change, and shown by one when the file goes
//!  given     a c  d b  e                            page by page, in the order in which programs touch them
//! ```
//!
//! A file takes as much again as it has, up to a block: to hide a page costs next to nothing then, and ends no leaf that others share.

use alloc::vec::Vec;

use userspace::{FileError, Map};
use vmsa::PhysAddr;

use crate::facts::page_size;
use crate::fallible::NoMemory;
use crate::locks::{Lock, order};
use crate::memory::secret::{self, Secret};
use crate::memory::{folios, frames};

struct Pages {
    bytes: u64,
    /// Where each page is that was touched.
    given: Map<u64, PhysAddr>,
    /// Pages of all pieces.
    count: u64,
    /// What was given of the last one ends here, and the piece there.
    spare: (PhysAddr, PhysAddr),
    /// In no other hands once no area maps the file, which is as long as the file is there.
    pieces: Vec<Secret>,
}

impl Pages {
    /// The page, which is given a place if it has none; `None` if no piece has any. There is memory to note one piece more.
    fn give(&mut self, index: u64) -> Result<Option<PhysAddr>, NoMemory> {
        if let Some(known) = self.given.get(&index) {
            return Ok(Some(*known));
        }
        let (page, end) = self.spare;
        if page == end {
            self.pieces.try_reserve(1).map_err(|_| NoMemory)?;
            return Ok(None);
        }
        self.given.insert(index, page)?;
        self.spare.0 = page + page_size().size_bytes();
        frames::hold(page);
        Ok(Some(page))
    }

    /// The order of the next piece: the file is twice as large with it at most, and never larger than it was made.
    fn next_order(&self) -> u32 {
        let missing = self.bytes.div_ceil(page_size().size_bytes()) - self.count;
        self.count.min(missing).max(1).ilog2().min(folios::block())
    }

    fn add(&mut self, piece: Secret) {
        self.count += piece.pages();
        self.spare = (piece.first(), piece.first() + piece.pages() * page_size().size_bytes());
        // The comparison leaves the compiler no way to a list that grows: see `give`.
        if self.pieces.len() < self.pieces.capacity() {
            self.pieces.push(piece);
        }
    }
}

/// The content of such a file.
pub(crate) struct Secrets(Lock<Pages>);

impl Secrets {
    pub(crate) const fn new() -> Self {
        let spare = (PhysAddr::new(0), PhysAddr::new(0));
        Self(Lock::new(order::SECRETS, Pages { bytes: 0, given: Map::new(), count: 0, spare, pieces: Vec::new() }))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.with(|pages| pages.bytes)
    }

    /// Pages that it has.
    pub(crate) fn pages(&self) -> u64 {
        self.0.with(|pages| pages.given.len() as u64)
    }

    /// Makes it so long, once. Whether it was not yet.
    pub(crate) fn resize(&self, bytes: u64) -> bool {
        self.0.with(|pages| {
            let is_first = pages.bytes == 0;
            if is_first {
                pages.bytes = bytes;
            }
            is_first
        })
    }

    pub(crate) fn is_there(&self, index: u64) -> bool {
        self.0.with(|pages| pages.given.contains_key(&index))
    }

    /// The frame for a mapping, which then has it.
    pub(crate) fn mapped(&self, index: u64) -> Result<PhysAddr, FileError> {
        loop {
            let (found, order) = self.0.with(|pages| {
                if index >= pages.bytes.div_ceil(page_size().size_bytes()) {
                    return Err(FileError::Beyond);
                }
                let given = pages.give(index).map_err(|NoMemory| FileError::NoMemory)?;
                Ok((given.inspect(|page| frames::share(*page)), pages.next_order()))
            })?;
            if let Some(page) = found {
                return Ok(page);
            }
            let mut fresh = Some(take(order).ok_or(FileError::NoMemory)?);
            // Another may have brought a piece meanwhile: that stays, and this one is shown again behind the lock.
            self.0.with(|pages| {
                let is_needed = pages.spare.0 == pages.spare.1;
                fresh.take_if(|_| is_needed).into_iter().for_each(|piece| pages.add(piece));
            });
        }
    }
}

/// Pages of zeros, if there is room for a program's: `1 << order`, or as many as there is room for.
fn take(order: u32) -> Option<Secret> {
    (0..=order).rev().filter(|order| frames::has_room(1 << order)).find_map(|order| secret::take_zeroed(order as usize))
}
