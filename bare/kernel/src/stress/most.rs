//! One consumer takes nearly all of free memory, in the largest blocks that there are.

use kerncore::buddy::MAX_ORDER;
use kerncore::range::Bytes;
use vmsa::PhysAddr;

use crate::console::say;
use crate::facts::{facts, page_size};
use crate::memory::pages;

/// Pages that are left, to be one in so many of those that were free.
const LEFT: u64 = 64;

/// Takes nearly all memory, writes to both ends of each block, and frees it. Whether each held what was written.
pub(super) fn take() -> bool {
    let free = || pages::with_pages(|pages| pages.free_bytes());
    let (before, mut blocks) = (free(), None);
    for order in (0..=MAX_ORDER).rev() {
        while let Some(block) = pages::allocate_leaving(order, before / LEFT) {
            let [first, last] = ends(block, order);
            write(first, blocks);
            write(last, Some((block, order)));
            blocks = Some((block, order));
        }
    }
    let (taken, mut is_right) = (before - free(), true);
    while let Some((block, order)) = blocks {
        let [first, last] = ends(block, order);
        is_right &= read(last) == blocks;
        blocks = read(first);
        pages::free(block, order);
    }
    say!(
        "stress: {} of {} taken, and what was written there {}",
        Bytes(taken),
        Bytes(before),
        if is_right { "read" } else { "LOST" }
    );
    is_right && free() == before
}

/// What is noted in a block: another one, and its order.
type Note = Option<(PhysAddr, usize)>;

/// Two notes, at the beginning and at the end.
fn ends(block: PhysAddr, order: usize) -> [*mut Note; 2] {
    let start = facts().linear.address(block).bits();
    let last = start + (page_size().size_bytes() << order) - 64;
    [start as *mut Note, last as *mut Note]
}

fn write(place: *mut Note, note: Note) {
    // SAFETY: in a block that was just taken, which the linear map has writable.
    unsafe { place.write_volatile(note) };
}

fn read(place: *mut Note) -> Note {
    // SAFETY: written when the block was taken.
    unsafe { place.read_volatile() }
}
