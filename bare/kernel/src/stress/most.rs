//! One consumer takes four fifths of free memory as one area of virtual addresses, by blocks of every size; a third of it becomes read-only,
//! a third goes before the rest.

use hardware::translation::{read_translation, read_translation_to_write};
use kerncore::range::Bytes;

use crate::facts::page_size;
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
