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
    UnmapSplit,
    ProtectList,
    Collapse,
    LinearPage,
    LinearHidden,
    LinearBlock,
}

use Row::{
    Collapse, LinearBlock, LinearHidden, LinearPage, MapBlock, MapLargest, MapPage, ProtectList, ProtectPage,
    ProtectSplit, TranslateLargest, TranslatePage, TranslateSplit, UnmapLargest, UnmapPage, UnmapSplit,
};

impl Row {
    pub(crate) const ALL: [Self; 16] = [
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
        UnmapSplit,
        ProtectList,
        Collapse,
        LinearPage,
        LinearHidden,
        LinearBlock,
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
            UnmapSplit => "unmap-split",
            ProtectList => "protect-list",
            Collapse => "collapse",
            LinearPage => "linear-page",
            LinearHidden => "linear-hidden",
            LinearBlock => "linear-block",
        }
    }

    /// What its instructions are counted per.
    pub(crate) const fn unit(self) -> &'static str {
        match self {
            MapLargest | MapBlock | UnmapLargest => "leaf",
            MapPage | UnmapPage => "page",
            UnmapSplit => "table",
            ProtectSplit | ProtectPage | ProtectList => "change",
            TranslateLargest | TranslateSplit | TranslatePage => "translation",
            Collapse => "changed page",
            LinearPage | LinearHidden | LinearBlock => "pair",
        }
    }

    /// Whether it is about the linear map: a library above the engine.
    pub(crate) const fn is_of_linear_map(self) -> bool {
        matches!(self, LinearPage | LinearHidden | LinearBlock)
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

    /// The case with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|case| case.to_string() == name)
    }

    /// The operation in words.
    pub(crate) fn title(&self) -> String {
        let page = self.page_size;
        let (block, largest) = match page {
            PageSize::Size4K => ("2 MiB", "1 GiB"),
            PageSize::Size16K => ("32 MiB", "32 MiB"),
            PageSize::Size64K => ("512 MiB", "512 MiB"),
        };
        match self.row {
            MapLargest => format!("map 256 GiB by {largest} blocks"),
            MapBlock => format!("map 256 GiB by {block} blocks"),
            MapPage => format!("map 1 GiB by {page} pages"),
            ProtectSplit => format!("10,000 random pages read-only, in 64 GiB of {largest} blocks"),
            ProtectPage => format!("the same writable again, {page} leaves already"),
            TranslateLargest => format!("translate in {largest} blocks"),
            TranslateSplit => "translate after those splits".to_string(),
            TranslatePage => format!("translate in {page} pages"),
            UnmapLargest => format!("unmap 256 GiB of {largest} blocks"),
            UnmapPage => format!("unmap 1 GiB of {page} pages"),
            UnmapSplit => "unmap 64 GiB after those splits".to_string(),
            ProtectList => "the same 10,000 pages, one gather".to_string(),
            Collapse => "those 64 GiB, writable again, collapsed".to_string(),
            LinearPage => format!("linear map: a page read-only and writable, {page} leaf already"),
            LinearHidden => format!("linear map: a page hidden and shown, {page} leaf already"),
            LinearBlock => format!("linear map: a page read-only and writable, {block} block split and healed"),
        }
    }

    fn is_one(&self) -> bool {
        // Only 4K has two sizes of blocks.
        let has_row = self.row != MapBlock || self.page_size == PageSize::Size4K;
        // A linear map is live, and only at 4K its rows have a bound.
        let has_state = match self.row.is_of_linear_map() {
            true => self.is_live && self.page_size == PageSize::Size4K,
            false => !(self.is_live && self.row.is_reading()),
        };
        has_row && has_state
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = if self.is_live { "/live" } else { "" };
        f.pad(&format!("{}/{}{live}", self.row.name(), self.page_size).to_lowercase())
    }
}
