//! Compressed kdumps: what makedumpfile and QEMU's `dump-guest-memory -z` write, and the kdump services of distributions keep.
//!
//! ```text
//!   header │ sub-header, notes │ bitmap: pages that exist │ bitmap: pages here │ descriptors of pages here │ pages
//!   in blocks of the page size       │ every eighth of a byte a page           │ offset, size, compression
//! ```
//!
//! A page that exists and is left out reads as zeros: one of zeros, or one that is no table (free, cache, a process's).

mod compression;
mod flattened;

use std::ops::Range;

use vmsa::PhysAddr;

use crate::contents::Contents;
use crate::machine::Machine;
use crate::memory::{END, Memory, ReadError};
use crate::vmcoreinfo::{NOTE_NAME, VmcoreInfo};
use crate::{Error, elf, interrupt};

pub(crate) use compression::unpack;
pub(crate) use flattened::{Flattened, is_flattened};

const SIGNATURE: &[u8] = b"KDUMP   ";
/// Bytes of the header up to what is read of it, and of the sub-header.
const HEADER_BYTES: usize = 464;
const SUB_HEADER_BYTES: usize = 104;
/// Bytes of the descriptor of a page.
const DESCRIPTOR_BYTES: u64 = 24;
/// More than the bitmap of any machine: 32 TiB in pages of 4 KiB.
const MOST_BITMAP_BYTES: u64 = 1 << 30;
/// More than any machine has pieces of memory.
const MOST_RUNS: usize = 1 << 20;
const MOST_NOTE_BYTES: u64 = 1 << 20;
/// Bytes of a bitmap whose ones are counted once.
const UNIT: usize = 4096;

/// Whether a file is one.
pub(crate) fn is_one(file: &dyn Contents) -> bool {
    let mut head = [0; SIGNATURE.len()];
    file.read_exact_at(&mut head, 0).is_ok() && head == SIGNATURE
}

/// Opens a dump in one file, or in the several that `makedumpfile --split` writes.
pub(crate) fn open(files: Vec<Box<dyn Contents>>) -> Result<Machine, Error> {
    let mut parts = Vec::new();
    let mut info = None;
    for file in files {
        let header = Header::read(&*file)?;
        info = info.or_else(|| header.vmcoreinfo(&*file));
        parts.push(Part::new(file, &header)?);
    }
    let page_bytes = parts.first().map_or(0, |part| part.page_bytes);
    if parts.iter().any(|part| part.page_bytes != page_bytes) {
        return Err(Error::new("parts of different dumps: name those of one --split"));
    }
    let ranges = parts.iter().map(|part| part.runs(part.existing)).collect::<Result<Vec<_>, _>>()?;
    let held = parts.iter().map(|part| part.runs(part.present)).collect::<Result<Vec<_>, _>>()?;
    let join = |all: Vec<Vec<Range<u64>>>| crate::memory::join(all.concat());
    let dump = Dump { parts, ranges: join(ranges), held: join(held), last: None };
    let mut machine = Machine::new(Box::new(dump));
    machine.vmcoreinfo = info;
    Ok(machine)
}

/// What is read of the two headers.
struct Header {
    page_bytes: u64,
    sub_header_blocks: u64,
    bitmap_blocks: u64,
    pages: u64,
    /// Pages of which this part of a dump has descriptors.
    split: Option<Range<u64>>,
    /// Offset and size.
    vmcoreinfo: (u64, u64),
    notes: (u64, u64),
}

impl Header {
    fn read(file: &dyn Contents) -> Result<Self, Error> {
        let mut head = [0; HEADER_BYTES];
        file.read_exact_at(&mut head, 0).map_err(|error| Error::io("its header", &error))?;
        if !head.starts_with(SIGNATURE) {
            return Err(Error::new("a part is no compressed kdump: name the files of one --split"));
        }
        let (version, page_bytes) = (word(&head, 8), word(&head, 428));
        if !(1..=6).contains(&version) || !page_bytes.is_power_of_two() || !(1 << 12..=1 << 16).contains(&page_bytes) {
            let expected = "expected 1 to 6, and 4K to 64K";
            return Err(Error::new(format!("a kdump of version {version} with pages of {page_bytes}: {expected}")));
        }
        let machine = String::from_utf8_lossy(&head[272..337]).trim_matches('\0').to_owned();
        // QEMU does not know.
        if !["", "Unknown", "aarch64"].contains(&machine.as_str()) {
            return Err(Error::new(format!("a dump of {machine}, expected aarch64")));
        }
        let mut sub = [0; SUB_HEADER_BYTES];
        file.read_exact_at(&mut sub, page_bytes).map_err(|error| Error::io("its sub-header", &error))?;
        let since = |least, at| if version >= least { long(&sub, at) } else { 0 };
        let pages = Some(since(6, 96)).filter(|pages| *pages != 0).unwrap_or(word(&head, 440));
        let split = match version {
            6.. => since(6, 80)..since(6, 88),
            _ => since(2, 16)..since(2, 24),
        };
        Ok(Self {
            page_bytes,
            sub_header_blocks: word(&head, 432),
            bitmap_blocks: word(&head, 436),
            pages,
            split: (version >= 2 && word(&sub, 12) != 0).then_some(split),
            vmcoreinfo: (since(3, 32), since(3, 40)),
            notes: (since(4, 48), since(4, 56)),
        })
    }

    /// By itself, or among the notes.
    fn vmcoreinfo(&self, file: &dyn Contents) -> Option<VmcoreInfo> {
        let read = |(offset, bytes): (u64, u64)| {
            let mut text = vec![0; usize::try_from(bytes).ok().filter(|_| (1..=MOST_NOTE_BYTES).contains(&bytes))?];
            file.read_exact_at(&mut text, offset).ok()?;
            Some(text)
        };
        let text = read(self.vmcoreinfo).or_else(|| elf::find_note(&read(self.notes)?, NOTE_NAME))?;
        Some(VmcoreInfo::parse(&text))
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word).into())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |long| u64::from_le_bytes(*long))
}

/// Takes a unit of a bitmap, and the first page that it is about.
type See<'s> = dyn FnMut(u64, &[u8]) -> Result<(), Error> + 's;

/// A file of a dump.
struct Part {
    file: Box<dyn Contents>,
    /// Where the file has anything but zeros.
    data: Vec<Range<u64>>,
    page_bytes: u64,
    /// Of which pages it has descriptors.
    pages: Range<u64>,
    /// Where the bitmaps and the descriptors begin.
    existing: u64,
    present: u64,
    descriptors: u64,
    /// How many pages are present before each unit of the bitmap, and before the first of `pages`.
    counts: Vec<u64>,
    first: u64,
}

impl Part {
    fn new(file: Box<dyn Contents>, header: &Header) -> Result<Self, Error> {
        let bytes = header.bitmap_blocks * header.page_bytes / 2;
        let most = END / header.page_bytes;
        if bytes == 0 || bytes > MOST_BITMAP_BYTES || header.pages > most.min(bytes * 8) {
            let line =
                format!("{} pages in a bitmap of {bytes} bytes, expected {MOST_BITMAP_BYTES} at most", header.pages);
            return Err(Error::new(line));
        }
        let existing = (1 + header.sub_header_blocks) * header.page_bytes;
        let pages = header.split.clone().unwrap_or(0..header.pages);
        let data = file.data().map_err(|error| Error::io("its length", &error))?;
        let mut part = Self {
            file,
            data,
            page_bytes: header.page_bytes,
            pages: pages.start..pages.end.min(header.pages),
            existing,
            present: existing + bytes,
            descriptors: existing + 2 * bytes,
            counts: Vec::new(),
            first: 0,
        };
        let (mut counts, mut count) = (Vec::new(), 0);
        part.bitmap(part.present, header.pages, &mut |_, unit| {
            counts.push(count);
            count += ones(unit);
            Ok(())
        })?;
        part.counts = counts;
        part.first = part.place(part.pages.start).map_or(count, |(before, _)| before);
        Ok(part)
    }

    /// Calls `see` with each unit of a bitmap and the first page that it is about, until it fails. Holes of the file are not read: a small
    /// file may have a large bitmap.
    fn bitmap(&self, start: u64, pages: u64, see: &mut See<'_>) -> Result<(), Error> {
        let mut unit = [0; UNIT];
        let bytes = pages.div_ceil(8);
        let read = |unit: &mut [u8], at| {
            self.file.read_exact_at(unit, start + at).map_err(|error| Error::io("its bitmaps", &error))
        };
        // All of it must be there, a hole too.
        read(&mut unit[..1], bytes.saturating_sub(1))?;
        for at in (0..bytes).step_by(UNIT) {
            let unit = &mut unit[..(bytes - at).min(UNIT as u64) as usize];
            let next = self.data.partition_point(|range| range.end <= start + at);
            match self.data.get(next) {
                Some(range) if range.start < start + at + unit.len() as u64 => read(unit, at)?,
                _ => unit.fill(0),
            }
            see(at * 8, unit)?;
        }
        Ok(())
    }

    /// The memory of the pages whose bits are set.
    fn runs(&self, bitmap: u64) -> Result<Vec<Range<u64>>, Error> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut add = |pages: Range<u64>| {
            let (first, end) = (pages.start.max(self.pages.start), pages.end.min(self.pages.end));
            let (start, end) = (first * self.page_bytes, end * self.page_bytes);
            match runs.last_mut() {
                _ if start >= end => {}
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
            runs.len()
        };
        self.bitmap(bitmap, self.pages.end, &mut |first, unit| {
            let count = match uniform(unit) {
                Some(is_set) => add(first..first + if is_set { unit.len() as u64 * 8 } else { 0 }),
                None => {
                    let bits = (0u64..).zip(unit).flat_map(|(place, byte)| {
                        (0..8).filter(move |bit| byte >> bit & 1 != 0).map(move |bit| first + place * 8 + bit)
                    });
                    bits.map(|page| add(page..page + 1)).last().unwrap_or(0)
                }
            };
            match count > MOST_RUNS {
                true => Err(Error::new(format!("memory in more than {MOST_RUNS} pieces: the dump is damaged"))),
                false => Ok(()),
            }
        })?;
        Ok(runs)
    }

    /// How many pages before this one are present, and whether it is.
    fn place(&self, page: u64) -> Option<(u64, bool)> {
        let (unit, within) = ((page / 8) as usize / UNIT, (page / 8) as usize % UNIT);
        let mut bytes = vec![0; within + 1];
        self.file.read_exact_at(&mut bytes, self.present + (unit * UNIT) as u64).ok()?;
        let last = bytes.pop()?;
        let before = last & ((1u8 << (page % 8)) - 1);
        Some((self.counts.get(unit)? + ones(&bytes) + u64::from(before.count_ones()), last >> (page % 8) & 1 != 0))
    }

    fn exists(&self, page: u64) -> bool {
        let mut byte = [0];
        let is_read = self.file.read_exact_at(&mut byte, self.existing + page / 8).is_ok();
        is_read && byte[0] >> (page % 8) & 1 != 0
    }

    /// The page, or `None` if it is not there or damaged.
    fn page(&self, page: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.page_bytes as usize];
        let (place, is_present) = self.place(page)?;
        if !is_present {
            return self.exists(page).then_some(bytes);
        }
        let mut descriptor = [0; DESCRIPTOR_BYTES as usize];
        let at = self.descriptors + place.checked_sub(self.first)? * DESCRIPTOR_BYTES;
        self.file.read_exact_at(&mut descriptor, at).ok()?;
        let (offset, size, flags) = (long(&descriptor, 0), word(&descriptor, 8), word(&descriptor, 12));
        // What does not become shorter is kept as it is.
        let mut packed = vec![0; usize::try_from(size).ok().filter(|size| (1..=bytes.len()).contains(size))?];
        self.file.read_exact_at(&mut packed, offset).ok()?;
        unpack(flags, &packed, &mut bytes).then_some(bytes)
    }
}

fn ones(bytes: &[u8]) -> u64 {
    match uniform(bytes) {
        Some(is_set) => u64::from(is_set) * bytes.len() as u64 * 8,
        None => bytes.iter().map(|byte| u64::from(byte.count_ones())).sum(),
    }
}

/// Whether all bits of a unit are set, or clear, as most units are.
fn uniform(unit: &[u8]) -> Option<bool> {
    [(0, false), (0xff, true)]
        .into_iter()
        .find(|(byte, _)| unit == &[*byte; UNIT][..unit.len()])
        .map(|(_, is_set)| is_set)
}

/// A dump, and the page that was read last.
struct Dump {
    parts: Vec<Part>,
    ranges: Vec<Range<u64>>,
    held: Vec<Range<u64>>,
    last: Option<(u64, Vec<u8>)>,
}

impl Dump {
    fn page(&mut self, page: u64) -> Result<&[u8], ReadError> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != page) {
            let part = self.parts.iter().find(|part| part.pages.contains(&page)).ok_or(ReadError::Outside)?;
            self.last = Some((page, part.page(page).ok_or(ReadError::Outside)?));
        }
        self.last.as_ref().map(|(_, bytes)| &bytes[..]).ok_or(ReadError::Outside)
    }
}

impl Memory for Dump {
    fn read(&mut self, at: PhysAddr, into: &mut [u8]) -> Result<(), ReadError> {
        interrupt::check()?;
        let page_bytes = self.parts.first().map_or(1, |part| part.page_bytes);
        let mut done = 0;
        while done < into.len() {
            let at = at.bits().checked_add(done as u64).ok_or(ReadError::Outside)?;
            let from = &self.page(at / page_bytes)?[(at % page_bytes) as usize..];
            let bytes = from.len().min(into.len() - done);
            into[done..done + bytes].copy_from_slice(&from[..bytes]);
            done += bytes;
        }
        Ok(())
    }

    fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    fn held(&self) -> &[Range<u64>] {
        &self.held
    }

    fn most_searched(&self) -> (u64, &'static str) {
        (64 << 30, "give --ttbr1 and --tcr")
    }
}

#[cfg(test)]
mod tests;
