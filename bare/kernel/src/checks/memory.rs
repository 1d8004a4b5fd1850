//! All memory, page by page.

use hardware::catch::catch;
use kerncore::range::{Bytes, PhysicalRange};

use super::detail::{Detail, tell};
use crate::facts::{facts, page_size};
use crate::memory::pages;

pub(super) fn read_every_page(detail: &mut Detail) -> bool {
    let (mut pages, mut ranges) = (0, 0);
    for range in pages::mapped() {
        if let Err(()) = read_range(&range, detail) {
            return false;
        }
        pages += range.size_bytes() / page_size().size_bytes();
        ranges += 1;
    }
    tell!(detail, "{pages} pages, {} in {ranges} ranges", Bytes(pages * page_size().size_bytes()));
    pages > 0
}

/// Reads a word of every page.
fn read_range(range: &PhysicalRange, detail: &mut Detail) -> Result<(), ()> {
    let linear = facts().linear;
    let first = linear.address(range.start).bits();
    let read = || {
        for offset in (0..range.size_bytes()).step_by(page_size().size_bytes() as usize) {
            // SAFETY: RAM, if it is mapped; else it faults, which is what is looked for.
            unsafe { ((first + offset) as *const u64).read_volatile() };
        }
    };
    // SAFETY: the loop holds nothing.
    if let Err(fault) = unsafe { catch(read) } {
        tell!(detail, "{}, at {}", fault.syndrome, fault.address);
        return Err(());
    }
    Ok(())
}
