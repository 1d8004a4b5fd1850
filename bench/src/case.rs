//! What is measured: the rows, at each granule, of page tables that hardware walks and of others.

use std::fmt;

use vmsa::PageSize;

/// One operation of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Row {
    MapLargest,
    MapBlock,
    MapPage,
    ProtectSplit,
    ProtectPage,
    TranslateLargest,
    TranslateSplit,
    TranslatePage,
    UnmapLargest,
    UnmapPage,
    Collapse,
}

use Row::{
    Collapse, MapBlock, MapLargest, MapPage, ProtectPage, ProtectSplit, TranslateLargest, TranslatePage,
    TranslateSplit, UnmapLargest, UnmapPage,
};

impl Row {
    pub(crate) const ALL: [Self; 11] = [
        MapLargest,
        MapBlock,
        MapPage,
        ProtectSplit,
        ProtectPage,
        TranslateLargest,
        TranslateSplit,
        TranslatePage,
        UnmapLargest,
        UnmapPage,
        Collapse,
    ];

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            MapLargest => "map-largest",
            MapBlock => "map-block",
            MapPage => "map-page",
            ProtectSplit => "protect-split",
            ProtectPage => "protect-page",
            TranslateLargest => "translate-largest",
            TranslateSplit => "translate-split",
            TranslatePage => "translate-page",
            UnmapLargest => "unmap-largest",
            UnmapPage => "unmap-page",
            Collapse => "collapse",
        }
    }

    /// Whether it changes nothing, so that it is the same for a page table that hardware walks.
    pub(crate) const fn is_reading(self) -> bool {
        matches!(self, TranslateLargest | TranslateSplit | TranslatePage)
    }
}

/// A row at a granule, of a page table that is live or is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    pub(crate) row: Row,
    pub(crate) page_size: PageSize,
    pub(crate) is_live: bool,
}

impl Case {
    /// Every case there is.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for page_size in PageSize::ALL {
            for is_live in [false, true] {
                let rows = Row::ALL.into_iter().map(|row| Self { row, page_size, is_live });
                cases.extend(rows.filter(|case| case.is_one()));
            }
        }
        cases
    }

    fn is_one(&self) -> bool {
        // Only 4K has two sizes of blocks.
        let has_row = self.row != MapBlock || self.page_size == PageSize::Size4K;
        has_row && !(self.is_live && self.row.is_reading())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = if self.is_live { "/live" } else { "" };
        f.pad(&format!("{}/{}{live}", self.row.name(), self.page_size).to_lowercase())
    }
}
