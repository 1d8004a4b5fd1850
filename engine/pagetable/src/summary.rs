//! How many leaves of each size a page table has, and how many tables.

use core::convert::Infallible;
use core::ops::{ControlFlow, Range};

use vmsa::{Granule, LeafSize, Level, Meaning};

use crate::change::Refusal;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::view::View;

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
        let mut summary = Self::default();
        summary.tables[place(view.geometry().start())] = 1;
        let _ = view.for_each::<Infallible>(range, |entry| {
            let level = entry.lookup.level;
            match entry.lookup.meaning {
                Meaning::Table(_) => summary.tables[place(level) + 1] += 1,
                Meaning::Leaf(_, contiguous) => summary.leaves[place(level)][usize::from(contiguous)] += 1,
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(summary)
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
