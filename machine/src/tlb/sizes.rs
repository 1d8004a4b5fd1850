//! Which sizes the stale entries of one regime have: an address is looked for once in each.

use super::entry::Entry;

/// How many entries there are of each size, and how many tables among them all.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Bit n: `counts[n]` is not zero.
    used: u64,
    /// By base-2 logarithm of the size.
    counts: [u32; 64],
    tables: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { used: 0, counts: [0; 64], tables: 0 }
    }
}

impl Sizes {
    pub(super) fn add(&mut self, entry: &Entry) {
        let size = entry.span().1;
        self.counts[size as usize] += 1;
        self.used |= 1 << size;
        self.tables += u32::from(entry.is_table());
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        let size = entry.span().1;
        self.counts[size as usize] -= 1;
        if self.counts[size as usize] == 0 {
            self.used &= !(1 << size);
        }
        self.tables -= u32::from(entry.is_table());
    }

    /// Sizes that there are, as bits.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    pub(super) const fn has_tables(&self) -> bool {
        self.tables != 0
    }
}
