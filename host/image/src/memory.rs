//! Physical memory that can be read, wherever it is kept.

use std::ops::Range;

use vmsa::PhysAddr;

/// Why bytes could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no memory there, or the source does not hold it.
    #[error("outside memory")]
    Outside,
    /// Stage 2 maps nothing there.
    #[error("not mapped by stage 2")]
    Unmapped,
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

    /// The ranges that hold memory, ascending, none beside another; empty if the source cannot tell.
    fn ranges(&self) -> &[Range<u64>];

    /// Those parts of `ranges` that can hold anything but zeros: a search reads no others.
    fn held(&self) -> &[Range<u64>] {
        self.ranges()
    }

    /// Bytes that a search reads at most, and what to do where there are more.
    fn most_searched(&self) -> (u64, &'static str) {
        (u64::MAX, "")
    }

    /// Whether all of the `bytes` at `at` are memory, as far as the source can tell.
    fn holds(&self, at: PhysAddr, bytes: u64) -> bool {
        let (at, ranges) = (at.bits(), self.ranges());
        let Some(end) = at.checked_add(bytes) else { return false };
        let after = ranges.partition_point(|range| range.start <= at);
        ranges.is_empty() || ranges[..after].last().is_some_and(|range| end <= range.end)
    }
}

impl<M: Memory + ?Sized> Memory for Box<M> {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        (**self).read(at, into)
    }

    fn ranges(&self) -> &[Range<u64>] {
        (**self).ranges()
    }

    fn held(&self) -> &[Range<u64>] {
        (**self).held()
    }

    fn most_searched(&self) -> (u64, &'static str) {
        (**self).most_searched()
    }
}

/// Memory at hand, from `first` on; what is beyond is outside.
pub(crate) struct Bytes<B> {
    pub(crate) bytes: B,
    range: Range<u64>,
}

impl<B: AsRef<[u8]>> Bytes<B> {
    pub(crate) fn new(first: u64, bytes: B) -> Self {
        let end = first + bytes.as_ref().len() as u64;
        Self { bytes, range: first..end }
    }
}

impl<B: AsRef<[u8]>> Memory for Bytes<B> {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        let start = at.bits().checked_sub(self.range.start).and_then(|start| usize::try_from(start).ok());
        let from = start.and_then(|start| self.bytes.as_ref().get(start..)).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or(ReadError::Outside)?);
        Ok(())
    }

    fn ranges(&self) -> &[Range<u64>] {
        std::slice::from_ref(&self.range)
    }
}

/// One more than the last physical address that any CPU has (FEAT_D128).
pub(crate) const END: u64 = 1 << 56;

/// The bytes of all ranges.
pub(crate) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The limit of a machine that answers every read by itself: a search of more would take hours.
pub(crate) const LIVE: (u64, &str) = (64 << 30, "give --ttbr1 and --tcr, or its shared memory file with --ram");

/// What a search of this memory reads.
pub(crate) fn searched(memory: &dyn Memory) -> Result<Vec<Range<u64>>, ReadError> {
    let (bytes, (most, advice)) = (total(memory.held()), memory.most_searched());
    if bytes > most {
        return Err(ReadError::Failed(format!("{bytes:#x} bytes of memory are too many to search: {advice}")));
    }
    Ok(memory.held().to_vec())
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
