//! `vellum.measure=secret`: what a secret page costs that is taken and one that is released, where free pages lie far apart.
//!
//! ```text
//! block  |  2^(n-1) pages  | 2^(n-2) | … | page | free |     all memory in blocks of 2^n pages, most of them cut so; each page that is
//!                                                          taken, or becomes a table, is the last one of such a block
//! ```

use alloc::vec::Vec;

use hardware::pmu;
use kerncore::range::Bytes;
use vmsa::PhysAddr;

use crate::console::say;
use crate::facts::{facts, page_size};
use crate::fallible::List;
use crate::memory::secret::{self, Secret};
use crate::memory::{current, linear_map, pages};

/// Secret pages.
const PAGES: usize = 8192;
/// Free pages beside them: for tables.
const SPARE: usize = 1280;

pub(super) fn run() {
    linear_map::get().refill();
    let mut held = Vec::new();
    if held.try_reserve_exact(PAGES).is_err() {
        return say!("measure: there is no memory for it");
    }
    let free = pages::with_pages(|pages| pages.free_bytes());
    let order = (free / page_size().size_bytes() / (PAGES + SPARE) as u64).checked_ilog2().unwrap_or(0);
    // A block of one page would have no room for its note.
    let memory = Scattered::new(order.max(1) as usize);
    let before = leaves();
    let count = pmu::read_instructions();
    while held.len() < PAGES
        && let Some([page]) = secret::take([0])
    {
        let _ = held.try_push(page);
    }
    let taken = pmu::read_instructions().wrapping_sub(count);
    let pages = held.len().max(1) as u32;
    let span = held.iter().map(|page: &Secret| page.first()).max().zip(held.first());
    let span = span.map_or(0, |(last, first)| last - first.first());
    let most = leaves();
    let count = pmu::read_instructions();
    held.clear();
    linear_map::get().heal_all();
    let released = pmu::read_instructions().wrapping_sub(count);
    let after = leaves();
    memory.free();
    linear_map::get().heal_all();
    linear_map::get().refill();
    say!("measure: {pages} secret pages, scattered over {}", Bytes(span));
    say!("measure: one taken: {} instructions", taken / pages);
    say!("measure: one released, healing included: {} instructions", released / pages);
    say!("measure: leaves before: {before}; with them held: {most}; after: {after}");
}

/// Leaves of the linear map.
fn leaves() -> usize {
    let mut leaves = 0;
    let walked = current::upper().for_each(facts().linear.range(), &mut |entry| {
        leaves += usize::from(matches!(entry.lookup.meaning, vmsa::Meaning::Leaf(..)));
    });
    walked.map_or(0, |()| leaves)
}

/// All free memory, taken, but for single pages far apart.
struct Scattered {
    /// The block that was taken last.
    last: Option<PhysAddr>,
}

/// What the first page of a block holds.
#[derive(Clone, Copy)]
struct Note {
    before: Option<PhysAddr>,
    order: usize,
    /// Its parts were given out each by itself, and the last page is free.
    is_cut: bool,
}

impl Scattered {
    fn new(order: usize) -> Self {
        let mut all = Self { last: None };
        let mut whole = 0;
        for order in (0..=order).rev() {
            while let Some(block) = pages::allocate(order) {
                all.add(block, order);
                whole += 1;
            }
        }
        // Of so many blocks, evenly, as many as are wanted. No other is free meanwhile, so that its parts are what is given out.
        let mut number = 0;
        all.for_each(|block, note| {
            number += PAGES + SPARE;
            if note.order == order && number >= whole {
                number -= whole;
                pages::free(block, order);
                (0..order).rev().chain([0]).for_each(|part| _ = pages::allocate(part));
                note.is_cut = true;
            }
        });
        let bytes = page_size().size_bytes();
        all.for_each(|block, note| {
            if note.is_cut {
                pages::free(block + ((bytes << note.order) - bytes), 0);
            }
        });
        all
    }

    fn add(&mut self, block: PhysAddr, order: usize) {
        // SAFETY: just allocated, and mapped by the linear map.
        unsafe { place(block).write(Note { before: self.last, order, is_cut: false }) };
        self.last = Some(block);
    }

    /// Gives `body` every block and its note. A note that it changes is kept.
    fn for_each(&self, mut body: impl FnMut(PhysAddr, &mut Note)) {
        let mut at = self.last;
        while let Some(block) = at {
            // SAFETY: written by `add`; the first part of a block is not free, whatever becomes of the rest.
            let mut note = unsafe { place(block).read() };
            at = note.before;
            let was_cut = note.is_cut;
            body(block, &mut note);
            if note.is_cut != was_cut {
                // SAFETY: as above.
                unsafe { place(block).write(note) };
            }
        }
    }

    fn free(self) {
        self.for_each(|mut block, note| match note.is_cut {
            true => (0..note.order).rev().for_each(|part| {
                pages::free(block, part);
                block = block + (page_size().size_bytes() << part);
            }),
            false => pages::free(block, note.order),
        });
    }
}

fn place(block: PhysAddr) -> *mut Note {
    facts().linear.address(block).bits() as *mut _
}
