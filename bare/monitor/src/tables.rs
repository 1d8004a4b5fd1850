//! Page tables of 4 KiB pages, the granule that every CPU here has: where their pages come from, and how changes are made.

use core::fmt;
use core::ops::Range;

use hardware::platform::Hardware;
use pagetable::{Change, Gather, PageTable, Refusal, Regime, Reserve};
use vmsa::{Granule4K, PhysAddr};

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

/// Why a change was not made.
#[derive(Debug)]
pub(crate) enum TableError {
    /// There are no more tables.
    NoTables,
    /// The engine's own words.
    Refused(Refusal),
}

impl From<Refusal> for TableError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTables => f.write_str("no memory is left for tables"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

/// Gives out pages of a range, from the bottom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    next: u64,
    end: u64,
}

impl Pool {
    pub(crate) const fn new(range: Range<u64>) -> Self {
        Self { next: range.start, end: range.end }
    }

    /// The first byte that was not given out.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// `bytes` bytes on a boundary of `align`, a power of two.
    pub(crate) fn take(&mut self, bytes: u64, align: u64) -> Result<PhysAddr, TableError> {
        let start = self.next.next_multiple_of(align);
        let end = start + bytes.next_multiple_of(PAGE_BYTES);
        if end > self.end {
            return Err(TableError::NoTables);
        }
        self.next = end;
        Ok(PhysAddr::new(start))
    }
}

/// Makes one change. It is complete, on every CPU, when `gather` is finished.
pub(crate) fn change<R: Regime>(
    table: &mut Table<R>,
    change: Change<R>,
    gather: &mut Gather<Granule4K, R>,
    pool: &mut Pool,
) -> Result<(), TableError> {
    let changes = [change];
    let plan = table.plan(&changes, None)?;
    let mut reserve = Reserve::new();
    while reserve.count() < plan.tables_needed() {
        reserve.add(&HARDWARE, pool.take(PAGE_BYTES, PAGE_BYTES)?);
    }
    plan.with(&mut reserve)?.apply(gather);
    Ok(())
}
