//! An area of virtual addresses: the largest leaves that its memory makes, a guard, a part of it read-only here and in the linear map,
//! a part of it freed; what cannot be is refused; and when it is gone everything is as before.

use core::ops::Range;

use hardware::probe;
use hardware::translation::{read_translation, read_translation_to_write};
use kerncore::command_line::Rodata;
use kerncore::range::Bytes;
use linearmap::Leaves;
use vmsa::{LeafSize, VirtAddr};

use super::detail::{Detail, tell};
use crate::facts::{facts, page_size, protects_aliases};
use crate::memory::settled::Settled;
use crate::memory::vmalloc::Area;
use crate::memory::{current, pages};

/// What is taken where a quarter of free memory is as much.
const MOST_BYTES: u64 = 64 << 20;
/// Pages beside it, so that not all leaves are of one size.
const ODD_PAGES: u64 = 3;

pub(super) fn take(detail: &mut Detail) -> bool {
    let free = || pages::with_pages(|pages| pages.free_bytes());
    let bytes = MOST_BYTES.min(free() / 4);
    // Without protection of the image boot's parts of it are alike, and heal to fewer leaves than boot made: once.
    let mut first = Detail::EMPTY;
    if facts().options.rodata == Some(Rodata::Off) && !is_right(bytes, &mut first) {
        return false;
    }
    let before = Settled::now();
    let is_right = is_right(bytes, detail);
    let after = Settled::now();
    let is_same = after.is_memory_of(&before) && after.is_map_of(&before);
    if !is_same {
        tell!(detail, "; NOT as before: {} free, before {}", Bytes(after.free), Bytes(before.free));
    }
    is_right && is_same
}

fn is_right(bytes: u64, detail: &mut Detail) -> bool {
    let page = page_size().size_bytes();
    let Some(mut area) = Area::take(bytes / page * page + ODD_PAGES * page) else {
        tell!(detail, "no memory for {}", Bytes(bytes));
        return false;
    };
    let range = area.range();
    let all = range.end - range.start;
    let largest = current::upper().translate(range.start).map(|leaf| leaf.size.size_bytes(page_size()));
    tell!(detail, "{}, its largest leaf {}", Bytes(all), Bytes(largest.unwrap_or(0)));
    let is_largest = largest == largest_leaf(area.first_block_bytes());
    // The second page, in the middle of a leaf, and the last two.
    let parts = [page..2 * page, all - 2 * page..all];
    let ends = [range.start, range.start + page, VirtAddr::new(range.end.bits() - page)];
    let is_usable = ends.into_iter().all(|at| write(at) && alias(at).is_some_and(write));
    let is_guarded = read_translation(range.end).is_err();
    let is_done = parts.clone().into_iter().all(|part| area.protect(part, true).is_ok());
    let is_as_asked = [page, all - 2 * page, all - page].into_iter().all(|offset| is_read_only(range.start + offset));
    let is_alone = !is_read_only(range.start) && !is_read_only(range.start + 2 * page) && write(range.start);
    // What is read-only when the area goes is reset with it.
    let is_undone = area.protect(parts[0].clone(), false).is_ok() && !is_read_only(range.start + page);
    let is_freed = area.free(2 * page..3 * page).is_ok() && frees_alone(&range, page);
    // No pages of it, and no area that there is memory for.
    let wrong = [1..page, page..page + 1, all - page..all + page, 2 * page..page];
    let is_part_refused = wrong.into_iter().all(|part| area.protect(part.clone(), true).or(area.free(part)).is_err());
    let free = pages::with_pages(|pages| pages.free_bytes());
    let is_area_refused = [0, free + 1, u64::MAX].into_iter().all(|bytes| Area::take(bytes).is_none());
    let all = [
        is_largest,
        is_usable,
        is_guarded,
        is_done,
        is_as_asked,
        is_alone,
        is_undone,
        is_freed,
        is_part_refused,
        is_area_refused,
    ];
    if all.contains(&false) {
        tell!(detail, ": {all:?}");
    }
    drop(area);
    !all.contains(&false) && read_translation(range.start).is_err()
}

/// The largest leaf that a block can have, or pages where all are to be.
fn largest_leaf(block_bytes: u64) -> Option<u64> {
    let most = if facts().leaves == Leaves::Pages { page_size().size_bytes() } else { block_bytes };
    let mut sizes =
        LeafSize::all(page_size(), current::upper().shape().layout).map(|leaf| leaf.size_bytes(page_size()));
    sizes.find(|bytes| *bytes <= most)
}

/// Whether the third page leads nowhere, and those beside it are as they were.
fn frees_alone(range: &Range<VirtAddr>, page: u64) -> bool {
    let [before, third, behind] = [page, 2 * page, 3 * page].map(|offset| range.start + offset);
    read_translation(third).is_err() && write(before) && write(behind)
}

fn write(at: VirtAddr) -> bool {
    // SAFETY: memory of this check, or a fault.
    unsafe { probe::write(at, at.bits()) }.is_ok()
}

/// The same memory in the linear map.
fn alias(at: VirtAddr) -> Option<VirtAddr> {
    current::upper().translate(at).map(|found| facts().linear.address(found.output))
}

/// Whether a page can be read and not written, in the linear map too as far as `rodata=` asks.
fn is_read_only(at: VirtAddr) -> bool {
    let is_so = |at| read_translation(at).is_ok() && read_translation_to_write(at).is_err();
    is_so(at) && alias(at).is_some_and(|at| if protects_aliases() { is_so(at) } else { write(at) })
}
