//! ELF64 cores: program headers and notes.
//!
//! Read with `pread` piece by piece, for a core may be larger than memory and the length of `/proc/kcore` means nothing.
//! Every number in the file is an attacker's until it is checked.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Error;

/// A program header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) kind: u32,
    pub(crate) offset: u64,
    pub(crate) virtual_address: u64,
    pub(crate) physical_address: u64,
    pub(crate) file_bytes: u64,
    pub(crate) memory_bytes: u64,
}

/// A note: whose it is, of which kind, and what it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) const LOAD: u32 = 1;
const NOTE: u32 = 4;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
const MACHINE_AARCH64: u16 = 183;
/// More headers than any core has, and fewer than would fill memory.
const MOST_SEGMENTS: u64 = 1 << 20;
const MOST_NOTE_BYTES: u64 = 16 << 20;
/// In `e_phnum`: the number stands in the first section header.
const MANY: u16 = 0xffff;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The program headers of an arm64 ELF core.
pub(crate) fn segments(file: &File) -> Result<Vec<Segment>, Error> {
    let mut header = [0; HEADER_BYTES];
    let read = file.read_at(&mut header, 0).map_err(|error| Error::io("its first bytes", &error))?;
    check_header(&header[..read])?;
    let (offset, size, short) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
    if usize::from(size) != SEGMENT_BYTES {
        return Err(Error::new(format!("program headers of {size} bytes, expected {SEGMENT_BYTES}")));
    }
    let count = if short == MANY { long_count(file, u64_at(&header, 40))? } else { u64::from(short) };
    if count == 0 || count > MOST_SEGMENTS {
        return Err(Error::new(format!("{count} program headers, expected 1 to {MOST_SEGMENTS}")));
    }
    let mut table = vec![0; count as usize * SEGMENT_BYTES];
    file.read_exact_at(&mut table, offset).map_err(|error| Error::io("its program headers", &error))?;
    Ok(table.chunks_exact(SEGMENT_BYTES).map(segment).collect())
}

fn check_header(header: &[u8]) -> Result<(), Error> {
    if header.starts_with(b"KDUMP   ") || header.starts_with(b"makedumpfile") {
        return Err(Error::new("a compressed or flattened kdump, expected ELF: convert it with makedumpfile -E or -R"));
    }
    if header.len() < HEADER_BYTES || !header.starts_with(b"\x7fELF") {
        return Err(Error::new("not an ELF file"));
    }
    if (header[4], header[5]) != (2, 1) {
        return Err(Error::new("a 32-bit or big-endian ELF file, expected 64-bit little-endian"));
    }
    match u16_at(header, 18) {
        MACHINE_AARCH64 => Ok(()),
        machine => Err(Error::new(format!("ELF machine {machine}, expected {MACHINE_AARCH64} (AArch64)"))),
    }
}

/// The number of program headers where it is too large for the header.
fn long_count(file: &File, sections: u64) -> Result<u64, Error> {
    let mut first = [0; 64];
    file.read_exact_at(&mut first, sections).map_err(|error| Error::io("its first section header", &error))?;
    Ok(u64::from(u32_at(&first, 44)))
}

fn segment(bytes: &[u8]) -> Segment {
    Segment {
        kind: u32_at(bytes, 0),
        offset: u64_at(bytes, 8),
        virtual_address: u64_at(bytes, 16),
        physical_address: u64_at(bytes, 24),
        file_bytes: u64_at(bytes, 32),
        memory_bytes: u64_at(bytes, 40),
    }
}

/// All notes of these segments. A segment of notes that cannot be read has none.
pub(crate) fn notes(file: &File, segments: &[Segment]) -> Vec<Note> {
    let mut found = Vec::new();
    for segment in segments.iter().filter(|segment| segment.kind == NOTE && segment.file_bytes <= MOST_NOTE_BYTES) {
        let mut bytes = vec![0; segment.file_bytes as usize];
        if file.read_exact_at(&mut bytes, segment.offset).is_ok() {
            parse_notes(&bytes, &mut found);
        }
    }
    found
}

fn parse_notes(mut rest: &[u8], found: &mut Vec<Note>) {
    while rest.len() >= 12 {
        let (name_bytes, bytes) = (u32_at(rest, 0) as usize, u32_at(rest, 4) as usize);
        let kind = u32_at(rest, 8);
        let Some(body) = padded(12, name_bytes) else { return };
        let (Some(name), Some(content)) =
            (rest.get(12..12 + name_bytes), rest.get(body..).and_then(|b| b.get(..bytes)))
        else {
            return;
        };
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        found.push(Note { name, kind, bytes: content.to_vec() });
        let Some(next) = padded(body, bytes).and_then(|next| rest.get(next..)) else { return };
        rest = next;
    }
}

/// `start` plus `bytes` rounded up to a multiple of four.
fn padded(start: usize, bytes: usize) -> Option<usize> {
    start.checked_add(bytes.checked_next_multiple_of(4)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], bytes: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for number in [name.len() as u32, bytes.len() as u32, 7] {
            note.extend(number.to_le_bytes());
        }
        for part in [name, bytes] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn notes_follow_one_another() {
        let bytes = [note(b"CORE\0", &[1, 2, 3]), note(b"VMCOREINFO\0", b"A=1")].concat();
        let mut found = Vec::new();
        parse_notes(&bytes, &mut found);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), &found[0].bytes[..]), ("CORE", &[1, 2, 3][..]));
        assert_eq!((found[1].name.as_str(), found[1].kind), ("VMCOREINFO", 7));
    }

    #[test]
    fn notes_that_lie_about_their_length_end_the_list() {
        for wrong in [u32::MAX, u32::MAX - 3, 1000] {
            for field in 0..2 {
                let mut bytes = note(b"CORE\0", &[1, 2, 3]);
                bytes[field * 4..field * 4 + 4].copy_from_slice(&wrong.to_le_bytes());
                let mut found = Vec::new();
                parse_notes(&bytes, &mut found);
                assert!(found.is_empty(), "{wrong:#x} {field}");
            }
        }
    }

    #[test]
    fn what_is_no_arm64_core_says_what_it_is() {
        let line = |header: &[u8]| check_header(header).unwrap_err().to_string();
        assert!(line(b"KDUMP   and more").contains("makedumpfile"));
        assert!(line(b"\x7fELF").contains("not an ELF"));
        let mut header = [0; HEADER_BYTES];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18] = 62;
        assert!(line(&header).contains("machine 62"));
        header[5] = 2;
        assert!(line(&header).contains("big-endian"));
    }
}
