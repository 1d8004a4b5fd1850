//! The shape of a page table, all of it run-time data: this crate reads tables of machines that it learns about only
//! when it meets them.

use std::fmt;

use vmsa::{AddressHalf, Layout, Level, PageSize};

/// Which stage of translation a page table serves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// From virtual addresses.
    One,
    /// From intermediate physical addresses.
    Two,
}

/// Granule, width, descriptor layout and start level of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// The granule.
    pub page_size: PageSize,
    /// How descriptors hold their output address.
    pub layout: Layout,
    /// Bits of input address that are translated.
    pub input_bits: u32,
    /// The half of the input space.
    pub half: AddressHalf,
    /// The level of the root.
    pub start: Level,
    /// The stage.
    pub stage: Stage,
}

/// A shape that the architecture does not have, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ShapeError(String);

impl ShapeError {
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}

/// Tables that a stage-2 root may concatenate (D8.2.10).
const MOST_CONCATENATED: usize = 16;

impl Shape {
    /// A stage-1 shape: the start level follows from the width (D8.2.8).
    pub fn stage1(page_size: PageSize, layout: Layout, input_bits: u32, half: AddressHalf) -> Result<Self, ShapeError> {
        check_layout(page_size, layout)?;
        check_width(page_size, layout, input_bits)?;
        let levels = (input_bits - page_size.shift()).div_ceil(page_size.index_bits()).max(1);
        let start = Level::new(4 - levels as i8);
        let start = start.ok_or_else(|| ShapeError(format!("{input_bits} input bits need {levels} levels")))?;
        Ok(Self { page_size, layout, input_bits, half, start, stage: Stage::One })
    }

    /// A stage-2 shape: the start level is told, and the root may be up to 16 concatenated tables (D8.2.10).
    pub fn stage2(page_size: PageSize, layout: Layout, input_bits: u32, start: Level) -> Result<Self, ShapeError> {
        check_layout(page_size, layout)?;
        check_width(page_size, layout, input_bits)?;
        let shift = page_size.level_shift(start);
        let most = shift + page_size.index_bits() + MOST_CONCATENATED.ilog2();
        if input_bits <= shift || input_bits > most {
            let line =
                format!("a {page_size} root at {start} translates {} to {most} bits, not {input_bits}", shift + 1);
            return Err(ShapeError(line));
        }
        Ok(Self { page_size, layout, input_bits, half: AddressHalf::Lower, start, stage: Stage::Two })
    }

    /// log2 of the bytes that a descriptor of `level` covers.
    pub fn shift(&self, level: Level) -> u32 {
        self.page_size.level_shift(level)
    }

    /// Descriptors in a table of `level`; the root's may be fewer than a whole table's, or several tables'.
    pub fn entries(&self, level: Level) -> usize {
        if level == self.start {
            1 << self.input_bits.saturating_sub(self.shift(level))
        } else {
            self.page_size.entries()
        }
    }

    /// Bytes of input space that a table of `level` translates.
    pub fn reach(&self, level: Level) -> u64 {
        (self.entries(level) as u64) << self.shift(level)
    }

    /// The lowest input address.
    pub fn base(&self) -> u64 {
        match self.half {
            AddressHalf::Lower => 0,
            AddressHalf::Upper => u64::MAX << self.input_bits,
        }
    }

    /// The last input address.
    pub fn last(&self) -> u64 {
        self.base() + ((1 << self.input_bits) - 1)
    }
}

fn check_layout(page_size: PageSize, layout: Layout) -> Result<(), ShapeError> {
    let fits = match layout {
        Layout::Bits48 => true,
        Layout::Lpa => page_size == PageSize::Size64K,
        Layout::Lpa2 => page_size != PageSize::Size64K,
    };
    if fits { Ok(()) } else { Err(ShapeError(format!("{layout:?} descriptors do not exist with {page_size} pages"))) }
}

/// The widths of D8.2.9: down to what FEAT_TTST allows, up to what the layout does.
fn check_width(page_size: PageSize, layout: Layout, input_bits: u32) -> Result<(), ShapeError> {
    let least = if page_size == PageSize::Size64K { 17 } else { 16 };
    let is_wide = page_size == PageSize::Size64K || layout == Layout::Lpa2;
    let most = if is_wide { 52 } else { 48 };
    if (least..=most).contains(&input_bits) {
        return Ok(());
    }
    Err(ShapeError(format!("{input_bits} input bits, expected {least} to {most} with {page_size} pages")))
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = match self.layout {
            Layout::Bits48 => "",
            Layout::Lpa => ", 52-bit outputs (LPA)",
            Layout::Lpa2 => ", LPA2 descriptors",
        };
        write!(f, "{} pages, {} input bits{layout}, root at {}", self.page_size, self.input_bits, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D8.2.8 and D8.2.9, as in the engine's own table, and the small widths of FEAT_TTST.
    #[test]
    fn stage_1_roots_match_the_manual() {
        let table = [
            (PageSize::Size4K, Layout::Bits48, 39, 1, 512),
            (PageSize::Size4K, Layout::Bits48, 48, 0, 512),
            (PageSize::Size4K, Layout::Lpa2, 52, -1, 16),
            (PageSize::Size4K, Layout::Bits48, 16, 3, 16),
            (PageSize::Size16K, Layout::Bits48, 36, 2, 2048),
            (PageSize::Size16K, Layout::Bits48, 47, 1, 2048),
            (PageSize::Size16K, Layout::Bits48, 48, 0, 2),
            (PageSize::Size16K, Layout::Lpa2, 52, 0, 32),
            (PageSize::Size64K, Layout::Bits48, 42, 2, 8192),
            (PageSize::Size64K, Layout::Bits48, 48, 1, 64),
            (PageSize::Size64K, Layout::Lpa, 52, 1, 1024),
        ];
        for (size, layout, bits, start, entries) in table {
            let shape = Shape::stage1(size, layout, bits, AddressHalf::Upper).expect("a shape");
            assert_eq!((shape.start.number(), shape.entries(shape.start)), (start, entries), "{shape}");
            assert_eq!(shape.last(), u64::MAX);
        }
    }

    #[test]
    fn stage_2_roots_concatenate_up_to_16_tables() {
        let shape = |bits, start| Shape::stage2(PageSize::Size4K, Layout::Bits48, bits, start);
        assert_eq!(shape(40, Level::L1).map(|shape| shape.entries(Level::L1)), Ok(1024));
        assert_eq!(shape(43, Level::L1).map(|shape| shape.entries(Level::L1)), Ok(8192));
        assert!(shape(44, Level::L1).is_err() && shape(30, Level::L1).is_err());
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let refused = [
            (PageSize::Size4K, Layout::Bits48, 49),
            (PageSize::Size4K, Layout::Lpa, 48),
            (PageSize::Size64K, Layout::Lpa2, 48),
            (PageSize::Size4K, Layout::Bits48, 15),
            (PageSize::Size64K, Layout::Lpa, 53),
        ];
        for (size, layout, bits) in refused {
            assert!(Shape::stage1(size, layout, bits, AddressHalf::Lower).is_err(), "{size} {layout:?} {bits}");
        }
    }
}
