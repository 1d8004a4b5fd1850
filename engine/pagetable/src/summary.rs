//! How many leaves of each size a page table has, and how many tables.

use core::convert::Infallible;
use core::ops::{ControlFlow, Range};

use vmsa::{Address, Granule, LeafSize, Level, Meaning};

use crate::change::Refusal;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::view::{Entry, View};

/// Leaves and tables, by size and level.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Descriptors by level (−1 first), single ones and members of contiguous groups.
    leaves: [[usize; 2]; 5],
    /// Tables by level (−1 first).
    tables: [usize; 5],
}

impl Summary {
    /// Counts what lies in `range`. Tables count where their first byte is, the root always, as one. Refused
    /// as [`View::for_each`] is.
    pub fn read<G: Granule, R: Regime, P: Platform>(
        view: &View<'_, G, R, P>,
        range: Range<R::Input>,
    ) -> Result<Self, Refusal> {
        let mut summary = Self::root(view.geometry().start());
        let _ = view.for_each::<Infallible>(range, |entry| {
            summary.count(entry);
            ControlFlow::Continue(())
        })?;
        Ok(summary)
    }

    /// One table, the root, at level `start`: for callers that read a range in parts, and [`count`](Self::count) each entry.
    pub fn root(start: Level) -> Self {
        let mut summary = Self::default();
        summary.tables[place(start)] = 1;
        summary
    }

    /// Counts an entry.
    pub fn count<A: Address>(&mut self, entry: &Entry<A>) {
        let level = entry.lookup.level;
        match entry.lookup.meaning {
            Meaning::Table(_) => self.tables[place(level) + 1] += 1,
            Meaning::Leaf(_, contiguous) => self.leaves[place(level)][usize::from(contiguous)] += 1,
            _ => {}
        }
    }

    /// Leaves of one size; a contiguous group counts as one.
    pub fn leaves<G: Granule>(&self, size: LeafSize) -> usize {
        let descriptors = self.leaves[place(size.level)][usize::from(size.contiguous)];
        let group = G::PAGE_SIZE.contiguous_shift(size.level).filter(|_| size.contiguous);
        descriptors >> group.unwrap_or(0)
    }

    /// Tables of one level.
    pub const fn tables_at(&self, level: Level) -> usize {
        self.tables[place(level)]
    }

    /// Tables of every level.
    pub fn tables(&self) -> usize {
        self.tables.iter().sum()
    }
}

/// The place of a level in an array that starts with level −1. A level-3 descriptor is never a table.
const fn place(level: Level) -> usize {
    (level.number() + 1) as usize
}
