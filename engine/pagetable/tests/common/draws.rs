//! Changes as tests draw them at random.

use proptest::prelude::*;

/// A change as drawn: the numbers are bent to the granule later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) kind: u8,
    pub(crate) start: u16,
    pub(crate) pages: u16,
    pub(crate) align: u8,
    pub(crate) output: u16,
    pub(crate) bits: u8,
    pub(crate) largest: u8,
}

pub(crate) fn draws() -> impl Strategy<Value = Vec<Vec<Draw>>> {
    let draw = (0..16u8, any::<u16>(), any::<u16>(), 0..5u8, any::<u16>(), any::<u8>(), 0..6u8).prop_map(
        |(kind, start, pages, align, output, bits, largest)| Draw { kind, start, pages, align, output, bits, largest },
    );
    prop::collection::vec(prop::collection::vec(draw, 1..4), 1..24)
}
