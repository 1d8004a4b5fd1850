//! One consumer takes four fifths of free memory as one area of virtual addresses, by blocks of every size; a third of it becomes read-only,
//! a third goes before the rest. Then one takes nearly all of it, in the largest blocks that there are.

use hardware::translation::{read_translation, read_translation_to_write};
use kerncore::buddy::MAX_ORDER;
use kerncore::range::Bytes;
use vmsa::PhysAddr;

use crate::facts::{facts, page_size};
use crate::memory::pages;
use crate::memory::vmalloc::{Area, AreaError};
use crate::report::console::say;

/// Whether there was memory, and all was as asked for.
pub(super) fn take() -> bool {
    let page = page_size().size_bytes();
    let third = pages::with_pages(|pages| pages.free_bytes()) / 5 * 4 / 3 / page * page;
    let Some(area) = Area::take(3 * third) else {
        say!("stress: there is no area of {}", Bytes(3 * third));
        return false;
    };
    let range = area.range();
    let went = change(area, third);
    let is_gone = read_translation(range.start).is_err();
    let is_right = matches!(went, Ok(true)) && is_gone;
    match went {
        Ok(true) if is_gone => {
            say!("stress: one area of {}, a third of it read-only, a third freed first", Bytes(3 * third))
        }
        Ok(is_right) => {
            say!("stress: the area at {} is wrong (as asked for: {is_right}, gone: {is_gone})", range.start)
        }
        Err(error) => say!("stress: the area at {} is as it was: {error}", range.start),
    }
    is_right
}

/// Whether each third is as asked for, one page before and behind each border. The area is gone then.
fn change(mut area: Area, third: u64) -> Result<bool, AreaError> {
    let page = page_size().size_bytes();
    // Not by whole blocks: leaves are cut on both sides.
    area.protect(page..third + page, true)?;
    area.free(third + page..2 * third + page)?;
    let at = |offset| area.range().start + offset;
    let can_write = |offset| read_translation_to_write(at(offset)).is_ok();
    let can_read = |offset| read_translation(at(offset)).is_ok();
    let is_writable = [0, 2 * third + page, 3 * third - page].into_iter().all(can_write);
    let is_read_only = [page, third].into_iter().all(|offset| can_read(offset) && !can_write(offset));
    let is_free = [third + page, 2 * third].into_iter().all(|offset| !can_read(offset));
    Ok(is_writable && is_read_only && is_free)
}

/// Pages that are left, to be one in so many of those that were free.
const LEFT: u64 = 64;

/// Takes nearly all memory, writes to both ends of each block, and frees it. Whether each held what was written.
pub(super) fn take_all() -> bool {
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
