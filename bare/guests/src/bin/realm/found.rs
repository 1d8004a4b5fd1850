//! What a check found.

use crate::access::Outcome;

/// What was expected, and what was there instead.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) expected: u64,
    pub(crate) found: u64,
}

pub(crate) fn expect(expected: u64, found: u64) -> Result<(), Found> {
    if expected == found { Ok(()) } else { Err(Found { expected, found }) }
}

pub(crate) fn expect_outcome(expected: Outcome, found: Outcome) -> Result<(), Found> {
    if expected == found { Ok(()) } else { Err(Found { expected: expected.number(), found: found.number() }) }
}

pub(crate) fn expect_all(expected: [u64; 4], found: [u64; 4]) -> Result<(), Found> {
    expected.into_iter().zip(found).try_for_each(|(expected, found)| expect(expected, found))
}

/// What every byte of a page is when its state has changed.
pub(crate) const SCRUBBED: u64 = 0x5c5c_5c5c_5c5c_5c5c;
