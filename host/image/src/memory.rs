//! Physical memory that can be read, wherever it is kept.

use std::fmt;
use std::ops::Range;

use vmsa::PhysAddr;

/// Why bytes could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// There is no memory there, or the source does not hold it.
    Outside,
    /// The user asked to stop.
    Interrupted,
    /// The source failed, in one line.
    Failed(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside => f.write_str("outside memory"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReadError {}

/// The physical memory of a machine. Reading needs `&mut`, for a source may be a conversation.
pub trait Memory {
    /// Reads all of `into` from `at`, as it stands at that moment: memory of a live machine may change between two reads.
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError>;

    /// The ranges that hold memory, ascending; empty if the source cannot tell.
    fn ranges(&self) -> Vec<Range<u64>>;

    /// Whether all of the `bytes` at `at` are memory, as far as the source can tell.
    fn holds(&self, at: PhysAddr, bytes: u64) -> bool {
        let Some(end) = at.bits().checked_add(bytes) else { return false };
        let ranges = self.ranges();
        ranges.is_empty() || ranges.iter().any(|range| range.start <= at.bits() && end <= range.end)
    }
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        (**self).read(at, into)
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        (**self).ranges()
    }
}

impl Memory for Box<dyn Memory> {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        (**self).read(at, into)
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        (**self).ranges()
    }
}

/// Sorts ranges and joins those that touch or overlap.
pub(crate) fn join(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_where_they_touch() {
        assert_eq!(join(vec![4..6, 0..2, 2..3, 5..9]), [0..3, 4..9]);
        assert_eq!(join(Vec::new()), []);
    }
}
