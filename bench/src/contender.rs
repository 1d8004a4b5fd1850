//! What every contender can be asked to do. What it cannot, its list in `roster.rs` says.

/// Where a contender's tables lead an address; asked outside the measured region, to hold contenders against each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The output address, to the byte.
    pub output: u64,
    /// Whether the leaf may not be written.
    pub is_read_only: bool,
}

/// A page table of one contender, empty when made. What it refuses is a bug of the bench, so it panics.
pub trait Contender {
    /// Whether protecting a page of a block splits the block.
    const SPLITS: bool = true;

    /// An empty page table.
    fn new() -> Self;

    /// Maps a range that holds nothing with leaves of `leaf_bytes`: writable, not executable, normal memory.
    fn map(&mut self, from: u64, bytes: u64, to: u64, leaf_bytes: u64);

    /// Makes one page read-only, or writable.
    fn protect(&mut self, page: u64, is_read_only: bool);

    /// The same of each page of a list, which ascends.
    fn protect_list(&mut self, pages: &[u64], is_read_only: bool) {
        pages.iter().for_each(|&page| self.protect(page, is_read_only));
    }

    /// The output addresses of all these, by exclusive or; 0 for one that is not mapped.
    fn translate(&self, inputs: &[u64]) -> u64;

    /// Removes what is mapped in a range, in leaves of `leaf_bytes`, and the tables that hold nothing then.
    fn unmap(&mut self, from: u64, bytes: u64, leaf_bytes: u64);

    /// Makes the leaves of a range as large as they can be.
    fn collapse(&mut self, from: u64, bytes: u64) {
        unreachable!("{bytes:#x} bytes at {from:#x} are to be collapsed, which the roster says it cannot");
    }

    /// Where an address leads, as the rows' check asks.
    fn find(&self, input: u64) -> Option<Found>;

    /// TLBIs issued so far.
    fn tlbis(&self) -> u64 {
        0
    }
}
