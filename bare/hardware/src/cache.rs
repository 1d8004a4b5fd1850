//! Cache maintenance by address. QEMU has no caches; real hardware breaks without these.

use core::ops::Range;

unsafe extern "C" {
    fn clean_to_poc(start: usize, end: usize);
    fn clean_and_invalidate_to_poc(start: usize, end: usize);
    fn make_fetchable(start: usize, end: usize);
}

/// Writes the dirty lines of a range of mapped virtual addresses to memory, where an observer without caches (a CPU
/// with its MMU off) sees them.
pub fn clean(range: Range<usize>) {
    // SAFETY: cleaning changes no data that any observer of the caches sees; a range that is not mapped faults.
    unsafe { clean_to_poc(range.start, range.end) };
}

/// Writes dirty lines of a range of mapped virtual addresses to memory and forgets them, so that the next read sees
/// what an observer without caches wrote.
pub fn clean_and_invalidate(range: Range<usize>) {
    // SAFETY: dirty lines are written first, so no data is lost; a range that is not mapped faults.
    unsafe { clean_and_invalidate_to_poc(range.start, range.end) };
}

/// Makes instructions that were written to a range of mapped virtual addresses visible to every CPU's fetches.
pub fn synchronize_instructions(range: Range<usize>) {
    // SAFETY: as for `clean`; dropping instruction cache lines loses nothing.
    unsafe { make_fetchable(range.start, range.end) };
}
