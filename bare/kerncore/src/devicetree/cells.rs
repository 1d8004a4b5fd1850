//! Values of properties: cells, strings, lists of strings.

use crate::text::Text;

use super::blob::Tokens;

/// How many cells an address and a size take on a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellCounts {
    pub(super) address: u32,
    pub(super) size: u32,
}

impl CellCounts {
    /// Where a node says nothing (Devicetree Specification 0.4, 2.3.5).
    pub(super) const DEFAULT: Self = Self { address: 2, size: 1 };

    /// What a node, of which `properties` come next, says of its children.
    pub(super) fn of_children(properties: &Tokens<'_>) -> Self {
        let cells = |name, default| {
            let cell = properties.find_property(name).and_then(|value| <[u8; 4]>::try_from(value).ok());
            cell.map(u32::from_be_bytes).filter(|&cells| cells <= MAX_CELLS).unwrap_or(default)
        };
        let Self { address, size } = Self::DEFAULT;
        Self { address: cells("#address-cells", address), size: cells("#size-cells", size) }
    }
}

/// PCI has 3; nothing has more than 4.
pub(super) const MAX_CELLS: u32 = 4;

/// Big-endian 32-bit cells, read from the front.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a>(pub(super) &'a [u8]);

impl Cells<'_> {
    /// The next `count` cells as one number; none if they are not there or the number has more than 64 bits.
    pub(super) fn take(&mut self, count: u32) -> Option<u64> {
        let (taken, rest) = self.0.split_at_checked(4 * count as usize)?;
        self.0 = rest;
        let (cells, _) = taken.as_chunks::<4>();
        cells.iter().try_fold(0u64, |number, cell| {
            let fits = number >> 32 == 0;
            fits.then(|| number << 32 | u64::from(u32::from_be_bytes(*cell)))
        })
    }

    /// All of them as one number, for a property of one number with one or two cells.
    pub(super) fn number(mut self) -> Option<u64> {
        match self.0.len() {
            4 | 8 => self.take(self.0.len() as u32 / 4),
            _ => None,
        }
    }
}

/// The pairs of address and size of a `reg`, front to back; ends before an incomplete or too large one.
#[derive(Clone, Copy)]
pub(super) struct Reg<'a> {
    cells: Cells<'a>,
    counts: CellCounts,
}

impl<'a> Reg<'a> {
    pub(super) fn new(value: &'a [u8], counts: CellCounts) -> Self {
        Self { cells: Cells(value), counts }
    }

    /// Whether all of the value was read, or can be.
    pub(super) fn is_whole(mut self) -> bool {
        while self.next().is_some() {}
        self.cells.0.is_empty()
    }
}

impl Iterator for Reg<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        // Entries without cells would never end.
        if self.counts.address == 0 {
            return None;
        }
        let mut ahead = self.cells;
        let entry = (ahead.take(self.counts.address)?, ahead.take(self.counts.size)?);
        self.cells = ahead;
        Some(entry)
    }
}

/// The string of a property of one string: without the zero that ends it.
pub(super) fn string(value: &[u8]) -> Text<'_> {
    Text(value.split(|&byte| byte == 0).next().unwrap_or(&[]))
}

/// The strings of a list, front to back.
pub(super) fn strings(value: &[u8]) -> impl Iterator<Item = Text<'_>> {
    value.strip_suffix(&[0]).unwrap_or(value).split(|&byte| byte == 0).map(Text)
}
