//! Stage-1 tables of a guest, whose addresses stage 2 translates.

use std::ops::Range;

use vmsa::{Meaning, PhysAddr};

use crate::memory::{Memory, ReadError, join};
use crate::root::Root;
use crate::walk::{Span, Visitor, walk};

/// Neighbouring intermediate addresses that lead to neighbouring physical addresses, or all to one leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    input: u64,
    output: u64,
    bytes: u64,
    /// Bytes of physical memory; fewer than `bytes` if they come again and again.
    output_bytes: u64,
}

impl Run {
    fn is_straight(&self) -> bool {
        self.bytes == self.output_bytes
    }
}

struct Collect<'a> {
    root: &'a Root,
    runs: Vec<Run>,
}

impl Visitor for Collect<'_> {
    fn span(&mut self, span: &Span) {
        let shape = self.root.shape;
        let Meaning::Leaf(output, _) = span.descriptor.meaning(shape.page_size, shape.layout, span.level) else {
            return;
        };
        let output_bytes = 1 << shape.shift(span.level);
        let run = Run { input: span.input, output: output.bits(), bytes: span.count * output_bytes, output_bytes };
        match self.runs.last_mut().filter(|last| last.is_straight() && run.is_straight()) {
            Some(last) if last.input + last.bytes == run.input && last.output + last.bytes == run.output => {
                last.bytes += run.bytes;
                last.output_bytes += run.bytes;
            }
            _ => self.runs.push(run),
        }
    }
}

/// The memory of a guest, by intermediate physical address.
pub(crate) struct Nested<'a> {
    memory: &'a mut dyn Memory,
    runs: Vec<Run>,
    ranges: Vec<Range<u64>>,
}

impl<'a> Nested<'a> {
    /// What `stage2` lets a guest reach of `memory`.
    pub(crate) fn new(memory: &'a mut dyn Memory, stage2: &Root) -> Result<Self, ReadError> {
        let mut collect = Collect { root: stage2, runs: Vec::new() };
        walk(memory, stage2, 0, u64::MAX, &mut collect)?;
        let runs = collect.runs;
        let ranges = join(runs.iter().map(|run| run.input..run.input.saturating_add(run.bytes)).collect());
        Ok(Self { memory, runs, ranges })
    }

    fn run(&self, at: u64) -> Option<Run> {
        let after = self.runs.partition_point(|run| run.input <= at);
        self.runs[..after].last().copied().filter(|run| at - run.input < run.bytes)
    }
}

impl Memory for Nested<'_> {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0;
        while done < into.len() {
            let at = at.bits().checked_add(done as u64).ok_or(ReadError::Outside)?;
            let run = self.run(at).ok_or(ReadError::Unmapped)?;
            let within = (at - run.input) % run.output_bytes;
            let bytes = (into.len() - done).min(usize::try_from(run.output_bytes - within).unwrap_or(usize::MAX));
            self.memory.read(PhysAddr::new(run.output + within), &mut into[done..done + bytes])?;
            done += bytes;
        }
        Ok(())
    }

    fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use vmsa::{Layout, Level, PageSize};

    use super::*;
    use crate::root::{Origin, Regime};
    use crate::shape::Shape;

    /// Two pages of memory that say which they are, behind a root at 0 and a table at 0x1000 that swap them.
    struct Swapped;

    impl Memory for Swapped {
        fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
            for (index, byte) in (0..).zip(into.iter_mut()) {
                let word: u64 = match (at.bits() + index) & !7 {
                    0 => 0x1003,
                    0x1000 => 0x3403,
                    0x1008 | 0x1010 | 0x1018 => 0x2403,
                    0x2000..0x3000 => 0x2222_2222_2222_2222,
                    0x3000..0x4000 => 0x3333_3333_3333_3333,
                    _ => 0,
                };
                *byte = word.to_le_bytes()[(at.bits() + index) as usize % 8];
            }
            Ok(())
        }

        fn ranges(&self) -> &[Range<u64>] {
            &[]
        }
    }

    #[test]
    fn reads_follow_stage_2_page_by_page() {
        let shape = Shape::stage2(PageSize::Size4K, Layout::Bits48, 30, Level::L2).expect("a shape");
        let root = Root::bare(Regime::Stage2, PhysAddr::new(0), shape, Origin::Flags);
        let mut memory = Swapped;
        let mut nested = Nested::new(&mut memory, &root).expect("memory");
        let mut bytes = [0; 4];
        assert_eq!(nested.read(PhysAddr::new(0xffe), &mut bytes), Ok(()));
        assert_eq!(bytes, [0x33, 0x33, 0x22, 0x22]);
        assert_eq!(nested.read(PhysAddr::new(0x3ffe), &mut bytes), Err(ReadError::Unmapped));
        assert_eq!(nested.ranges().first(), Some(&(0..0x4000)));
        // Two pages that lead to one.
        for page in [0x2000, 0x3000] {
            assert_eq!(nested.read(PhysAddr::new(page + 0xffc), &mut bytes), Ok(()));
            assert_eq!(bytes, [0x22; 4]);
        }
        assert_eq!(nested.read(PhysAddr::new(0x2ffe), &mut bytes), Ok(()));
        assert_eq!(bytes, [0x22; 4]);
    }
}
