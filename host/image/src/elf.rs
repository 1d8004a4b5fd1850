//! ELF64 cores: program headers and notes.
//!
//! Read with `pread` piece by piece, for a core may be larger than memory and the length of `/proc/kcore` means nothing; `elf`
//! takes the pieces apart. Every number in the file is an attacker's until it is checked.

use elf::abi::{EI_NIDENT, EM_AARCH64, PN_XNUM, PT_NOTE};
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader};
use elf::note::{Note, NoteIterator};
use elf::segment::{ProgramHeader, SegmentTable};

use crate::Error;
use crate::contents::Contents;

const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
/// More headers than any core has, and fewer than would fill memory.
const MOST_SEGMENTS: u64 = 1 << 20;
/// More than the notes of any core take, all together.
const MOST_NOTE_BYTES: u64 = 16 << 20;
/// Of the first section header, which has the number of program headers where the file's has no room for it.
const INFO: usize = 44;

/// The program headers of an arm64 ELF core.
pub(crate) fn segments(file: &dyn Contents) -> Result<Vec<ProgramHeader>, Error> {
    let mut bytes = [0; HEADER_BYTES];
    let read = file.read_at(&mut bytes, 0).map_err(|error| Error::io("its first bytes", &error))?;
    let header = header(&bytes[..read])?;
    let (offset, size) = (header.e_phoff, header.e_phentsize);
    if usize::from(size) != SEGMENT_BYTES {
        return Err(Error::new(format!("program headers of {size} bytes, expected {SEGMENT_BYTES}")));
    }
    let count = if header.e_phnum == PN_XNUM { long_count(file, header.e_shoff)? } else { u64::from(header.e_phnum) };
    if count == 0 || count > MOST_SEGMENTS {
        return Err(Error::new(format!("{count} program headers, expected 1 to {MOST_SEGMENTS}")));
    }
    let mut table = vec![0; count as usize * SEGMENT_BYTES];
    file.read_exact_at(&mut table, offset).map_err(|error| Error::io("its program headers", &error))?;
    Ok(SegmentTable::new(LittleEndian, Class::ELF64, &table).iter().collect())
}

fn header(bytes: &[u8]) -> Result<FileHeader<LittleEndian>, Error> {
    if bytes.len() < HEADER_BYTES || !bytes.starts_with(b"\x7fELF") {
        return Err(Error::new("not an ELF file, expected an ELF core or a kdump; plain memory is raw:FILE@BASE"));
    }
    if (bytes[4], bytes[5]) != (2, 1) {
        return Err(Error::new("a 32-bit or big-endian ELF file, expected 64-bit little-endian"));
    }
    let header = FileHeader::parse_tail((LittleEndian, Class::ELF64, 0, 0), &bytes[EI_NIDENT..]);
    let header = header.map_err(|error| Error::new(format!("not an ELF file: {error}")))?;
    match header.e_machine {
        EM_AARCH64 => Ok(header),
        machine => Err(Error::new(format!("ELF machine {machine}, expected {EM_AARCH64} (AArch64)"))),
    }
}

/// The number of program headers where it is too large for the header.
fn long_count(file: &dyn Contents, sections: u64) -> Result<u64, Error> {
    let mut first = [0; HEADER_BYTES];
    file.read_exact_at(&mut first, sections).map_err(|error| Error::io("its first section header", &error))?;
    Ok(first[INFO..].first_chunk().map_or(0, |number| u64::from(u32::from_le_bytes(*number))))
}

/// What the first note of this name among those of these segments says. A segment of notes that cannot be read has none.
pub(crate) fn note(file: &dyn Contents, segments: &[ProgramHeader], name: &str) -> Option<Vec<u8>> {
    let mut left = MOST_NOTE_BYTES;
    segments.iter().filter(|segment| segment.p_type == PT_NOTE).find_map(|segment| {
        left = left.checked_sub(segment.p_filesz)?;
        let mut bytes = vec![0; segment.p_filesz as usize];
        file.read_exact_at(&mut bytes, segment.p_offset).ok()?;
        find_note(&bytes, name)
    })
}

/// One that lies about its length ends the list.
pub(crate) fn find_note(bytes: &[u8], name: &str) -> Option<Vec<u8>> {
    NoteIterator::new(LittleEndian, Class::ELF64, 4, bytes).find_map(|note| match note {
        Note::Unknown(note) if note.name_str().is_ok_and(|it| it == name) => Some(note.desc.to_vec()),
        _ => None,
    })
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
        assert_eq!(find_note(&bytes, "CORE"), Some(vec![1, 2, 3]));
        assert_eq!(find_note(&bytes, "VMCOREINFO"), Some(b"A=1".to_vec()));
        assert_eq!(find_note(&bytes, "VMCORE"), None);
    }

    #[test]
    fn notes_that_lie_about_their_length_end_the_list() {
        for wrong in [u32::MAX, u32::MAX - 3, 1000] {
            for field in 0..2 {
                let mut bytes = [note(b"CORE\0", &[1, 2, 3]), note(b"VMCOREINFO\0", b"A=1")].concat();
                bytes[field * 4..field * 4 + 4].copy_from_slice(&wrong.to_le_bytes());
                assert_eq!(
                    ["CORE", "VMCOREINFO"].map(|name| find_note(&bytes, name)),
                    [None, None],
                    "{wrong:#x} {field}"
                );
            }
        }
    }

    /// A file that is all notes, and counts the bytes that are read.
    struct Notes(std::cell::Cell<u64>);

    impl Contents for Notes {
        fn read_at(&self, into: &mut [u8], _: u64) -> std::io::Result<usize> {
            self.0.set(self.0.get() + into.len() as u64);
            into.fill(0);
            Ok(into.len())
        }

        fn data(&self) -> std::io::Result<Vec<std::ops::Range<u64>>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn segments_of_notes_are_read_up_to_a_limit_in_all() {
        for (count, bytes, read) in [
            (1, MOST_NOTE_BYTES - 1, MOST_NOTE_BYTES - 1),
            (1, MOST_NOTE_BYTES, MOST_NOTE_BYTES),
            (1, MOST_NOTE_BYTES + 1, 0),
            (10, MOST_NOTE_BYTES / 4, MOST_NOTE_BYTES),
            (1 << 20, MOST_NOTE_BYTES, MOST_NOTE_BYTES),
        ] {
            let one = ProgramHeader {
                p_type: PT_NOTE,
                p_offset: 0,
                p_vaddr: 0,
                p_paddr: 0,
                p_filesz: bytes,
                p_memsz: 0,
                p_flags: 0,
                p_align: 0,
            };
            let file = Notes(Default::default());
            assert_eq!(super::note(&file, &vec![one; count], "VMCOREINFO"), None);
            assert_eq!(file.0.get(), read, "{count} of {bytes}");
        }
    }

    #[test]
    fn what_is_no_arm64_core_says_what_it_is() {
        let line = |header: &[u8]| super::header(header).unwrap_err().to_string();
        assert!(line(b"\x7fELF").contains("not an ELF"));
        let mut header = [0; HEADER_BYTES];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18] = 62;
        assert!(line(&header).contains("machine 62"));
        header[5] = 2;
        assert!(line(&header).contains("big-endian"));
    }
}
