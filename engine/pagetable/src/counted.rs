//! How many tables a copy of ranges takes: as many as the ranges have, each counted once.
//!
//! ```text
//!   ranges      ├──┤ ├─┤            ├────┤        in order of address
//!   tables    │ 1           │     │ 2         │    of pages: what another range has of the first is passed by, as are those above
//! ```

use core::ops::{ControlFlow, Range};

use vmsa::{Geometry, Granule, Level};

use crate::change::Refusal;
use crate::platform::Platform;
use crate::regime::Regime;
use crate::table::PageTable;
use crate::walk::Next;

/// Tables that were counted.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) tables: usize,
    /// Where the last range ended.
    last: u64,
    /// Where its last table of pages ends: each table that begins below was counted, or has nothing of these ranges.
    end: u64,
}

impl<G: Granule, R: Regime, P: Platform> PageTable<'_, G, R, P> {
    /// How many tables [`Self::copy_to`] takes at most for a range: as many as the range has here, but for the root.
    pub fn tables_to_copy(&self, from: Range<R::Input>) -> Result<usize, Refusal> {
        let (start, end) = self.offsets(&from)?;
        let mut counted = Counted::default();
        self.count_tables(start, end, &mut counted);
        Ok(counted.tables)
    }

    /// Counts the tables of a range that those before it have not. Nothing that tables of pages hold is looked at.
    pub(crate) fn count_tables(&self, start: u64, end: u64, counted: &mut Counted) {
        // What comes out of order may have been passed by.
        let before = if start < counted.last { 0 } else { counted.end };
        let _ = self.walk::<()>(self.top, start.max(before), end, &mut |visit| {
            let below = visit.table(self.geometry);
            counted.tables += usize::from(below.is_some_and(|below| below.start >= before));
            let leads_on = below.is_some_and(|below| below.level != Level::L3);
            ControlFlow::Continue(if leads_on { Next::Enter } else { Next::Past(visit.end) })
        });
        if start < end {
            (counted.last, counted.end) = (end, end.next_multiple_of(1 << Geometry::<G>::shift(Level::L2)));
        }
    }
}
