//! Where tables come from, and how a plan gets those that it needs.

use core::fmt;
use core::ops::Range;

use hardware::platform::Hardware;
use pagetable::{Gather, Plan, Refusal, Regime, Reserve};
use vmsa::{Granule, PageSize, PhysAddr};

/// Why a page table was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeError {
    /// The engine's reason.
    Refused(Refusal),
    /// There is no memory for tables.
    NoTables,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NoTables => f.write_str("no memory for tables"),
        }
    }
}

impl From<Refusal> for ChangeError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Pages for tables.
pub trait TableSource {
    /// A page that nobody else uses, whatever it holds.
    fn take(&mut self) -> Option<PhysAddr>;

    /// Takes a page back.
    fn give(&mut self, table: PhysAddr);
}

/// Takes pages from a range, one after the other. What is given back is not used again.
#[derive(Clone, Copy, Debug)]
pub struct Bump {
    next: u64,
    end: u64,
    page_size: PageSize,
}

impl Bump {
    /// All of the range, whole pages.
    pub const fn new(range: Range<u64>, page_size: PageSize) -> Self {
        Self { next: range.start, end: range.end, page_size }
    }

    /// What is left.
    pub const fn rest(&self) -> Range<u64> {
        self.next..self.end
    }

    /// Whole pages for `bytes` bytes on a boundary of `alignment_bytes`, a power of two.
    pub fn take_bytes(&mut self, bytes: u64, alignment_bytes: u64) -> Result<PhysAddr, ChangeError> {
        let start = self.next.next_multiple_of(alignment_bytes);
        let end = start + bytes.next_multiple_of(self.page_size.size_bytes());
        if end > self.end {
            return Err(ChangeError::NoTables);
        }
        self.next = end;
        Ok(PhysAddr::new(start))
    }
}

impl TableSource for Bump {
    fn take(&mut self) -> Option<PhysAddr> {
        let bytes = self.page_size.size_bytes();
        self.take_bytes(bytes, bytes).ok()
    }

    fn give(&mut self, _: PhysAddr) {}
}

/// Applies a plan with tables from `source`; if there are too few, all go back.
pub fn apply<G: Granule, R: Regime>(
    mut plan: Plan<'_, '_, '_, G, R, Hardware>,
    hardware: &Hardware,
    reserve: &mut Reserve,
    source: &mut dyn TableSource,
    gather: &mut Gather<G, R>,
) -> Result<(), ChangeError> {
    fill(hardware, reserve, plan.tables_needed(), source)?;
    Ok(plan.apply(reserve, gather)?)
}

/// Fills a reserve to so many tables; if there are too few, all go back.
pub fn fill(
    hardware: &Hardware,
    reserve: &mut Reserve,
    count: usize,
    source: &mut dyn TableSource,
) -> Result<(), ChangeError> {
    while reserve.count() < count {
        let Some(table) = source.take() else {
            give_back(hardware, reserve, source);
            return Err(ChangeError::NoTables);
        };
        reserve.add(hardware, table);
    }
    Ok(())
}

/// Gives back what a reserve still has.
pub fn give_back(hardware: &Hardware, reserve: &mut Reserve, source: &mut dyn TableSource) {
    while let Some(table) = reserve.take(hardware) {
        source.give(table);
    }
}
