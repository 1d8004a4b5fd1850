//! Physical memory that can be read, wherever it is kept.

use std::ops::Range;

use vmsa::PhysAddr;

/// Why bytes could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no memory there, or the source does not hold it.
    #[error("outside memory")]
    Outside,
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The source failed, in one line.
    #[error("{0}")]
    Failed(String),
}

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

/// Memory at hand, from `first` on; what is beyond is outside.
pub(crate) struct Bytes<B> {
    pub(crate) first: u64,
    pub(crate) bytes: B,
}

impl<B: AsRef<[u8]>> Memory for Bytes<B> {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        let start = at.bits().checked_sub(self.first).and_then(|start| usize::try_from(start).ok());
        let from = start.and_then(|start| self.bytes.as_ref().get(start..)).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or(ReadError::Outside)?);
        Ok(())
    }

    fn ranges(&self) -> Vec<Range<u64>> {
        Vec::from_iter(std::iter::once(self.first..self.first + self.bytes.as_ref().len() as u64))
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
