//! What a map is made of: leaves by size, tables by level, and what follows from these.

use pagetable::Summary;
use vmsa::{Granule, Layout, LeafSize, Level, PageSize};

/// Leaves and tables of a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) page_size: PageSize,
    pub(crate) start: Level,
    /// From the largest; a contiguous group is one.
    pub(crate) leaves: Vec<(LeafSize, u64)>,
    /// From the root.
    pub(crate) tables: Vec<(Level, u64)>,
}

impl Shape {
    pub(super) fn of<G: Granule>(summary: &Summary, layout: Layout, start: Level) -> Self {
        let leaves = LeafSize::all(G::PAGE_SIZE, layout).map(|size| (size, summary.leaves::<G>(size) as u64));
        let levels = Level::ALL.into_iter().filter(|&level| level >= start);
        let tables = levels.map(|level| (level, summary.tables_at(level) as u64));
        let leaves = leaves.filter(|(_, count)| *count > 0);
        Self { page_size: G::PAGE_SIZE, start, leaves: leaves.collect(), tables: tables.collect() }
    }

    /// The same memory in pages. Blocks alone leave nothing open: below each is one table at each level for every block there.
    pub(super) fn in_pages(mut self) -> Self {
        let pages = self.mapped() >> self.page_size.shift();
        for (size, count) in core::mem::replace(&mut self.leaves, vec![(LeafSize::PAGE, pages)]) {
            let mut tables = count;
            for (level, all) in &mut self.tables {
                if *level > size.level {
                    *all += tables;
                    tables <<= self.page_size.index_bits();
                }
            }
        }
        self
    }

    /// Bytes of memory.
    pub(crate) fn mapped(&self) -> u64 {
        self.leaves.iter().map(|(size, count)| count * size.size_bytes(self.page_size)).sum()
    }

    pub(crate) fn leaf_count(&self) -> u64 {
        self.leaves.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn table_count(&self) -> u64 {
        self.tables.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.table_count() << self.page_size.shift()
    }

    /// Loads of a walk that no cache helps: the fewest, the most, and on average over memory, in hundredths.
    pub(crate) fn loads(&self) -> (u64, u64, u64) {
        let of = |size: &LeafSize| (size.level.number() - self.start.number() + 1) as u64;
        let each = || self.leaves.iter().map(|(size, _)| of(size));
        let all = self
            .leaves
            .iter()
            .map(|(size, count)| u128::from(count * size.size_bytes(self.page_size)) * u128::from(of(size)));
        let average = all.sum::<u128>() * 100 / u128::from(self.mapped().max(1));
        (each().min().unwrap_or(0), each().max().unwrap_or(0), average as u64)
    }

    /// TLB entries that cover so many bytes, if they hold the largest leaves.
    pub(crate) fn tlb_entries(&self, bytes: u64) -> u64 {
        let (mut left, mut entries) = (bytes, 0);
        for (size, count) in &self.leaves {
            let size = size.size_bytes(self.page_size);
            let taken = left.div_ceil(size).min(*count);
            (left, entries) = (left.saturating_sub(taken * size), entries + taken);
        }
        entries
    }
}
