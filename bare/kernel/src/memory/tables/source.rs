//! Where tables come from, and go back to.

use core::ops::Range;

use vmsa::{PageSize, PhysAddr};

/// Pages for tables.
pub(crate) trait TableSource {
    /// A page that nobody else uses, whatever it holds.
    fn take(&mut self) -> Option<PhysAddr>;

    /// Takes a page back.
    fn give(&mut self, table: PhysAddr);
}

/// Takes pages from a range, one after the other. What is given back is not used again.
pub(crate) struct Bump {
    next: u64,
    end: u64,
    page_size: PageSize,
}

impl Bump {
    pub(crate) const fn new(range: Range<u64>, page_size: PageSize) -> Self {
        Self { next: range.start, end: range.end, page_size }
    }

    /// What is left.
    pub(crate) const fn rest(&self) -> Range<u64> {
        self.next..self.end
    }
}

impl TableSource for Bump {
    fn take(&mut self) -> Option<PhysAddr> {
        let bytes = self.page_size.size_bytes();
        let table = self.next;
        if self.end - table < bytes {
            return None;
        }
        self.next += bytes;
        Some(PhysAddr::new(table))
    }

    fn give(&mut self, _: PhysAddr) {}
}
