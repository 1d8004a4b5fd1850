//! Flattened dumps: what was written where, in the order of time, for a pipe that cannot seek (`makedumpfile -F`, QEMU's
//! `dump-guest-memory -z`). Inside is a compressed kdump, or an ELF core.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use crate::Error;
use crate::contents::Contents;
use crate::memory::join;

const SIGNATURE: &[u8] = b"makedumpfile\0\0\0\0";
/// The header's place, and bytes of the head of a record: an offset and a size, big-endian.
const HEADER_BYTES: u64 = 4096;
const HEAD_BYTES: u64 = 16;
/// More than a dump of half a terabyte has.
const MOST_RECORDS: usize = 1 << 22;

/// Whether a file is one.
pub(crate) fn is_flattened(file: &dyn Contents) -> bool {
    let mut head = [0; SIGNATURE.len()];
    file.read_exact_at(&mut head, 0).is_ok() && head == SIGNATURE
}

/// A flattened file, put in order.
pub(crate) struct Flattened {
    file: Box<dyn Contents>,
    /// By offset: where its bytes end, and where in the file they begin. They do not overlap.
    records: BTreeMap<u64, (u64, u64)>,
    end: u64,
}

impl Flattened {
    pub(crate) fn new(file: Box<dyn Contents>) -> Result<Self, Error> {
        let mut flattened = Self { file, records: BTreeMap::new(), end: 0 };
        let mut at = HEADER_BYTES;
        for _ in 0..MOST_RECORDS {
            let mut head = [0; HEAD_BYTES as usize];
            let read = flattened.file.read_exact_at(&mut head, at);
            read.map_err(|error| Error::io(format!("its record at {at:#x}"), &error))?;
            let (offset, size) = (long(&head[..8]), long(&head[8..]));
            if (offset, size) == (u64::MAX, u64::MAX) {
                return Ok(flattened);
            }
            let end = offset.checked_add(size).filter(|end| *end < 1 << 62);
            let Some(end) = end else {
                let line = format!("its record at {at:#x} is for {size:#x} bytes at {offset:#x}: it is damaged");
                return Err(Error::new(line));
            };
            flattened.put(offset..end, at + HEAD_BYTES);
            at += HEAD_BYTES + size;
        }
        Err(Error::new(format!("more than {MOST_RECORDS} records: put it in order with makedumpfile -R")))
    }

    /// What was written last counts.
    fn put(&mut self, range: Range<u64>, at: u64) {
        if range.is_empty() {
            return;
        }
        while let Some((start, (end, from))) = self.records.range(..range.end).next_back().map(|(key, it)| (*key, *it))
            && end > range.start
        {
            self.records.remove(&start);
            if end > range.end {
                self.records.insert(range.end, (end, from + (range.end - start)));
            }
            if start < range.start {
                self.records.insert(start, (range.start, from));
            }
        }
        self.end = self.end.max(range.end);
        self.records.insert(range.start, (range.end, at));
    }
}

fn long(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |long| u64::from_be_bytes(*long))
}

impl Contents for Flattened {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let most = |end: u64| into.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        match self.records.range(..=offset).next_back() {
            Some((start, (end, from))) if offset < *end => {
                let most = most(*end);
                self.file.read_at(&mut into[..most], from + (offset - start))
            }
            // Nobody wrote there.
            _ => {
                let next = self.records.range(offset..).next().map_or(self.end.max(offset), |(start, _)| *start);
                let most = most(next);
                into[..most].fill(0);
                Ok(most)
            }
        }
    }

    fn data(&self) -> io::Result<Vec<Range<u64>>> {
        Ok(join(self.records.iter().map(|(start, (end, _))| *start..*end).collect()))
    }
}
