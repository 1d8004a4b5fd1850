//! Cache maintenance by address. QEMU has no caches; real hardware breaks without these.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::registers::read_register;

unsafe extern "C" {
    fn clean_to_poc(start: usize, end: usize);
    fn clean_and_invalidate_to_poc(start: usize, end: usize);
    fn make_fetchable(start: usize, end: usize);
    fn make_fetchable_everywhere(start: usize, end: usize);
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

/// Whether the instruction cache of some CPU that runs may be indexed by virtual addresses.
static IS_VIRTUAL: AtomicBool = AtomicBool::new(false);

/// Looks at this CPU's instruction cache (CTR_EL0.L1Ip, D24.2.35), before it executes what comes at run time.
pub fn note_this_cpu() {
    const PHYSICALLY_INDEXED: u64 = 0b11;
    if read_register!("ctr_el0") >> 14 & 0b11 != PHYSICALLY_INDEXED {
        IS_VIRTUAL.store(true, Ordering::Relaxed);
    }
}

/// The same where they will be fetched at other addresses than these. An instruction cache that is indexed by virtual addresses
/// may hold lines of those, which no operation by these addresses finds.
pub fn synchronize_aliased_instructions(range: Range<usize>) {
    if !IS_VIRTUAL.load(Ordering::Relaxed) {
        return synchronize_instructions(range);
    }
    // SAFETY: as for `synchronize_instructions`.
    unsafe { make_fetchable_everywhere(range.start, range.end) };
}
