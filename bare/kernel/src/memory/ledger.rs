//! Who has how much of all memory: a page that nobody has any more is found where two readings differ.
//!
//! ```text
//! all pages = free + of programs and files + tables of programs + the heap + secret memory + what the kernel has itself
//! ```

use core::fmt;

use crate::facts::page_size;
use crate::memory::{frames, heap, pages, promises, ranges, secret};

/// Owners whose pages are counted, in words.
const OWNERS: [&str; 4] = ["of programs or files", "of tables of programs", "of secret memory", "of the kernel's"];

/// A reading.
pub(crate) struct Ledger {
    free: u64,
    /// As in [`OWNERS`].
    owned: [u64; OWNERS.len()],
    objects: heap::Objects,
    promised: u64,
}

/// What there is more of than before.
pub(crate) struct Lost<'l> {
    now: &'l Ledger,
    before: &'l Ledger,
}

impl Ledger {
    /// Counts, while nobody takes memory or gives it back.
    pub(crate) fn read() -> Self {
        let shift = page_size().shift();
        let free = pages::with_pages(|pages| pages.free_bytes()) >> shift;
        let (taken, tables) = (frames::taken_bytes() >> shift, frames::tables());
        let (heap, secret) = (heap::bytes() >> shift, secret::counts().0 as u64);
        let all = ranges::mapped_bytes() >> shift;
        // Tables of its own, stacks, areas, executable memory.
        let rest = all - free - taken - heap - secret;
        let owned = [taken - tables, tables, secret, rest];
        Self { free, owned, objects: heap::objects(), promised: promises::promised() }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free << page_size().shift()
    }

    /// Pages that somebody has beyond those before.
    pub(crate) fn pages_beyond(&self, before: &Self) -> i64 {
        let owned = |ledger: &Self| ledger.owned.iter().sum::<u64>();
        owned(self).wrapping_sub(owned(before)) as i64
    }

    /// What there is more of than `before`, if anything. The heap may have other pages, for as many objects.
    pub(crate) fn beyond<'l>(&'l self, before: &'l Self) -> Option<Lost<'l>> {
        let is_same = self.owned == before.owned && self.objects == before.objects && self.promised == before.promised;
        (!is_same).then_some(Lost { now: self, before })
    }
}

impl fmt::Display for Lost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, before } = self;
        let more = now.owned.iter().zip(before.owned).map(|(now, before)| now.wrapping_sub(before) as i64);
        write!(f, "{} pages", now.pages_beyond(before))?;
        for (more, owner) in more.zip(OWNERS).filter(|(more, _)| *more != 0) {
            write!(f, ", {more} {owner}")?;
        }
        for (bytes, more) in now.objects.beyond(&before.objects) {
            write!(f, "; {more} objects of {bytes} bytes in the heap")?;
        }
        match now.promised.wrapping_sub(before.promised) as i64 {
            0 => Ok(()),
            more => write!(f, "; {more} pages are promised to nobody"),
        }
    }
}
