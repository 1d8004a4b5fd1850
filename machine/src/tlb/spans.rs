//! Spans of memory that belong to something: what leads to an address is found without asking all.

use alloc::collections::BTreeSet;

use super::entry::bytes;

/// Spans of memory that belong to something, found by the addresses they cover.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans<T> {
    /// Base-2 logarithm of the size, first address, whose it is.
    spans: BTreeSet<(u8, u64, T)>,
    /// Sizes that there are, or were.
    sizes: BTreeSet<u8>,
}

impl<T: Copy + Ord + Default> Spans<T> {
    pub(crate) fn add(&mut self, log2: u8, first: u64, of: T) {
        self.spans.insert((log2, first, of));
        self.sizes.insert(log2);
        // The part of it that lies before address 0 is at the end of memory: there is none.
        if first.wrapping_add(bytes(log2) - 1) < first {
            self.add(log2, 0, of);
        }
    }

    pub(crate) fn remove(&mut self, log2: u8, first: u64, of: T) {
        self.spans.remove(&(log2, first, of));
    }

    /// Those that cover an address from `first` to `last`.
    pub(crate) fn covering(&self, first: u64, last: u64) -> impl Iterator<Item = (u8, u64, T)> {
        self.sizes.iter().flat_map(move |&log2| {
            let low = first.saturating_sub(bytes(log2) - 1);
            let from = self.spans.range((log2, low, T::default())..);
            from.take_while(move |it| (it.0, it.1) <= (log2, last)).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn what_covers_an_address_is_found() {
        let mut spans = Spans::default();
        spans.add(12, 0x5000, 1);
        spans.add(16, 0x1_0000, 2);
        // The last three KiB of memory, and the first.
        spans.add(12, 0u64.wrapping_sub(0xc00), 3);
        spans.add(12, 0u64.wrapping_sub(0x1000), 4);
        // One byte of it is the first of memory.
        spans.add(12, 0u64.wrapping_sub(0xfff), 5);
        let of = |first, last| {
            let mut found: Vec<u8> = spans.covering(first, last).map(|it| it.2).collect();
            found.dedup();
            found
        };
        assert_eq!(of(0x5000, 0x5000), [1]);
        assert_eq!(of(0x5fff, 0x5fff), [1]);
        assert_eq!(of(0x6000, 0xffff), [0; 0]);
        assert_eq!(of(0, 0x1_0000), [3, 5, 1, 2]);
        assert_eq!(of(0x1_ffff, 0x2_0000), [2]);
        assert_eq!(of(0, 0x3ff), [3, 5]);
        assert_eq!(of(0, 0), [3, 5]);
    }
}
