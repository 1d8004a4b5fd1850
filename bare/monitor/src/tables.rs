//! Page tables of 4 KiB pages, the granule that every CPU here has: where their pages come from, and how changes are made.

use core::ops::Range;

use common::supply::{self, Bump, ChangeError};
use hardware::platform::Hardware;
use pagetable::{Change, Gather, PageTable, Regime, Reserve};
use vmsa::{Granule4K, PageSize};

/// Bytes of a page and of a table.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A page table of the monitor's or the guest's.
pub(crate) type Table<R> = PageTable<'static, Granule4K, R, Hardware>;

/// This machine. Tables are mapped at their physical addresses, or the MMU is off.
///
/// One value for all: only [`crate::map`] and [`crate::stage2`] edit with it, each its own page table, on one CPU at a time.
// SAFETY: tables come from the image's early tables and from the pool, which nothing else uses and which the monitor's map
// holds writable at their physical addresses; the two modules above see that each page table has one editor, and that no
// change takes memory from under the monitor.
pub(crate) static HARDWARE: Hardware = unsafe { Hardware::new(0) };

/// Tables from a range.
pub(crate) const fn pool(range: Range<u64>) -> Bump {
    Bump::new(range, PageSize::Size4K)
}

/// Makes one change. It is complete, on every CPU, when `gather` is finished.
pub(crate) fn change<R: Regime>(
    table: &mut Table<R>,
    change: Change<R>,
    gather: &mut Gather<Granule4K, R>,
    pool: &mut Bump,
) -> Result<(), ChangeError> {
    let changes = [change];
    let plan = table.plan(&changes, None)?;
    supply::apply(plan, &HARDWARE, &mut Reserve::new(), pool, gather)?;
    Ok(())
}
