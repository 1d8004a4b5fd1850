//! All memory, page by page.

use hardware::catch::catch;
use hardware::translation::read_translation;
use kerncore::range::{Bytes, PhysicalRange};

use super::detail::{Detail, tell};
use crate::facts::{facts, page_size};
use crate::memory::{handed, hidden_pages, ranges};

pub(super) fn read_every_page(detail: &mut Detail) -> bool {
    let (mut pages, mut ranges, mut hidden) = (0, 0, 0);
    for range in ranges::mapped().iter() {
        match read_range(range, detail) {
            Some(pages) => hidden += pages,
            None => return false,
        }
        pages += range.size_bytes() / page_size().size_bytes();
        ranges += 1;
    }
    let bytes = |pages: u64| pages * page_size().size_bytes();
    tell!(detail, "{pages} pages, {} in {ranges} ranges", Bytes(bytes(pages)));
    if hidden > 0 {
        tell!(detail, "; {} of them hidden, which are free or lost to a host", Bytes(bytes(hidden)));
    }
    pages > 0 && bytes(hidden) == hidden_pages::bytes() + bytes(handed::counts().1)
}

/// Reads a word of every page that is not hidden; gives the number of those that are, where any may be.
fn read_range(range: &PhysicalRange, detail: &mut Detail) -> Option<u64> {
    let first = facts().linear.address(range.start);
    let may_hide = hidden_pages::is_on() || handed::counts().1 > 0;
    let read = || {
        let mut hidden = 0;
        for offset in (0..range.size_bytes()).step_by(page_size().size_bytes() as usize) {
            let page = first + offset;
            if may_hide && read_translation(page).is_err() {
                hidden += 1;
                continue;
            }
            // SAFETY: RAM, if it is mapped; else it faults, which is what is looked for.
            unsafe { (page.bits() as *const u64).read_volatile() };
        }
        hidden
    };
    // SAFETY: the loop holds nothing.
    let read = unsafe { catch(read) };
    read.inspect_err(|fault| tell!(detail, "{}, at {}", fault.syndrome, fault.address)).ok()
}
