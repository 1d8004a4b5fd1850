//! Which sizes the stale entries of one regime have: an address is looked for once in each, and by a walk only in those
//! that tables have.

use super::entry::Entry;

/// How many entries there are of each size, and how many tables.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    all: Counts,
    tables: Counts,
}

/// By base-2 logarithm of the size.
#[derive(Clone, Debug)]
struct Counts {
    /// Bit n: `counts[n]` is not zero.
    used: u64,
    counts: [u32; 64],
}

impl Default for Counts {
    fn default() -> Self {
        Self { used: 0, counts: [0; 64] }
    }
}

impl Counts {
    fn add(&mut self, size: u8) {
        self.counts[size as usize] += 1;
        self.used |= 1 << size;
    }

    fn remove(&mut self, size: u8) {
        self.counts[size as usize] -= 1;
        if self.counts[size as usize] == 0 {
            self.used &= !(1 << size);
        }
    }
}

impl Sizes {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.all.add(entry.span().1);
        if entry.is_table() {
            self.tables.add(entry.span().1);
        }
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.all.remove(entry.span().1);
        if entry.is_table() {
            self.tables.remove(entry.span().1);
        }
    }

    /// Sizes that there are, as bits.
    pub(super) const fn used(&self) -> u64 {
        self.all.used
    }

    /// Sizes of tables that there are, as bits.
    pub(super) const fn used_by_tables(&self) -> u64 {
        self.tables.used
    }
}
