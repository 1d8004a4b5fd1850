//! `vellum.pagealloc=debug`: free pages are hidden from the linear map, so that whoever uses one faults. From any context: tables come
//! from the map's reserve alone.

use core::sync::atomic::{AtomicU64, Ordering};

use kerncore::command_line::PageAllocator;
use kerncore::range::PhysicalRange;
use linearmap::{Context, Wanted};

use crate::facts::facts;
use crate::memory::linear_map;
use crate::memory::pages::{self, Keeper};

/// Blocks that could not be hidden, and stay as they were.
static NOT_HIDDEN: AtomicU64 = AtomicU64::new(0);
/// Blocks that could not be shown, so that their allocation failed.
static NOT_SHOWN: AtomicU64 = AtomicU64::new(0);

/// Whether that is asked for.
pub(crate) fn is_on() -> bool {
    facts().options.page_allocator == Some(PageAllocator::Debug)
}

/// Hides all free pages, if that is asked for. The reserve is full, and no other CPU runs.
pub(crate) fn start() {
    if is_on() {
        pages::keep_hidden(Keeper { show, hide, restock });
    }
}

/// Bytes that are hidden now, if nothing failed.
pub(crate) fn bytes() -> u64 {
    if is_on() { pages::with_pages(|pages| pages.free_bytes()) } else { 0 }
}

/// Blocks that could not be hidden, and that could not be shown.
pub(crate) fn failures() -> (u64, u64) {
    (NOT_HIDDEN.load(Ordering::Relaxed), NOT_SHOWN.load(Ordering::Relaxed))
}

fn show(block: PhysicalRange) -> bool {
    change(block, Wanted::Shown, &NOT_SHOWN)
}

fn hide(block: PhysicalRange) -> bool {
    change(block, Wanted::Hidden, &NOT_HIDDEN)
}

/// Who only allocates and frees makes no change that may wait, which would fill the reserve.
fn restock() {
    linear_map::get().refill();
}

fn change(block: PhysicalRange, wanted: Wanted, failed: &AtomicU64) -> bool {
    let address = |physical| facts().linear.address(physical);
    let changed = linear_map::get().change(&[address(block.start)..address(block.end)], wanted, Context::Atomic);
    if changed.is_err() {
        failed.fetch_add(1, Ordering::Relaxed);
    }
    changed.is_ok()
}
