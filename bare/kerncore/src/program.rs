//! Programs: static ELF files for arm64, with addresses of their own or position independent.

use elf::abi::{EM_AARCH64, ET_DYN, ET_EXEC, PF_R, PF_W, PF_X, PT_GNU_STACK, PT_INTERP, PT_LOAD};
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::SegmentTable;
use thiserror::Error;

use crate::list::List;

/// Segments that are loaded; a program with more is refused.
pub const MAX_SEGMENTS: usize = 16;
/// The first bytes of a file, in which [`read`] expects the headers.
pub const HEAD_BYTES: usize = 4096;

/// A part of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Where its content begins in the file.
    pub offset: u64,
    /// Bytes of content.
    pub file_bytes: u64,
    /// Where it goes, before the program is moved.
    pub address: u64,
    /// Bytes of memory; what is not in the file is zero.
    pub memory_bytes: u64,
    /// What may be done with it.
    pub is_readable: bool,
    /// As above.
    pub is_writable: bool,
    /// As above.
    pub is_executable: bool,
}

/// What the headers of a program say.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its first instruction, before the program is moved.
    pub entry: u64,
    /// Whether it runs at any address.
    pub is_movable: bool,
    /// Whether it asks for a stack that may be executed (PT_GNU_STACK).
    pub has_executable_stack: bool,
    /// What is to be loaded, by rising address.
    pub segments: List<Segment, MAX_SEGMENTS>,
    /// Where its program headers are in the file, how large each is, and how many there are.
    pub headers: (u64, u16, u16),
}

impl Program {
    /// The addresses that it takes, before it is moved.
    pub fn range(&self) -> core::ops::Range<u64> {
        let end = self.segments.iter().map(|segment| segment.address + segment.memory_bytes).max();
        self.segments.first().map_or(0, |first| first.address)..end.unwrap_or(0)
    }

    /// Where the program headers are in memory, if a segment holds them, before it is moved.
    pub fn headers_address(&self) -> Option<u64> {
        let at = self.headers.0;
        let holds = |segment: &&Segment| (segment.offset..segment.offset + segment.file_bytes).contains(&at);
        self.segments.iter().find(holds).map(|segment| segment.address + (at - segment.offset))
    }
}

/// Why a file is not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Problem {
    /// No ELF file of 64 bits, little-endian.
    #[error("not an ELF file of 64 bits")]
    NotElf,
    /// For another machine, or no program.
    #[error("ELF machine {0}, type {1}: expected a program for AArch64")]
    NotAProgram(u16, u16),
    /// It wants a dynamic linker.
    #[error("dynamically linked, expected a static program")]
    Dynamic,
    /// Headers or segments make no sense.
    #[error("its program headers make no sense")]
    Headers,
}

/// Reads the headers of a program from the first bytes of its file.
pub fn read(head: &[u8], file_bytes: u64) -> Result<Program, Problem> {
    // The library takes what is shorter for a mistake of its caller's.
    let tail = head.get(16..64).ok_or(Problem::NotElf)?;
    let ident = parse_ident::<LittleEndian>(head).map_err(|_| Problem::NotElf)?;
    if ident.1 != Class::ELF64 {
        return Err(Problem::NotElf);
    }
    let header = FileHeader::parse_tail(ident, tail).map_err(|_| Problem::NotElf)?;
    if header.e_machine != EM_AARCH64 || ![ET_EXEC, ET_DYN].contains(&header.e_type) {
        return Err(Problem::NotAProgram(header.e_machine, header.e_type));
    }
    let table_bytes = usize::from(header.e_phnum) * 56;
    let start = usize::try_from(header.e_phoff).map_err(|_| Problem::Headers)?;
    let table = start.checked_add(table_bytes).and_then(|end| head.get(start..end)).ok_or(Problem::Headers)?;
    if header.e_phentsize != 56 {
        return Err(Problem::Headers);
    }
    let mut program = Program {
        entry: header.e_entry,
        is_movable: header.e_type == ET_DYN,
        has_executable_stack: false,
        segments: List::new(Segment::default()),
        headers: (header.e_phoff, header.e_phentsize, header.e_phnum),
    };
    for found in SegmentTable::new(LittleEndian, Class::ELF64, table) {
        match found.p_type {
            PT_INTERP => return Err(Problem::Dynamic),
            PT_GNU_STACK => program.has_executable_stack = found.p_flags & PF_X != 0,
            PT_LOAD if found.p_memsz > 0 => {
                let has = |flag| found.p_flags & flag != 0;
                let segment = Segment {
                    offset: found.p_offset,
                    file_bytes: found.p_filesz,
                    address: found.p_vaddr,
                    memory_bytes: found.p_memsz,
                    is_readable: has(PF_R),
                    is_writable: has(PF_W),
                    is_executable: has(PF_X),
                };
                check(&segment, program.range().end, file_bytes)?;
                program.segments.push(segment).map_err(|_| Problem::Headers)?;
            }
            _ => {}
        }
    }
    if program.segments.is_empty() {
        return Err(Problem::Headers);
    }
    Ok(program)
}

/// A segment follows the one before it, lies in the lower half, and its content in the file.
fn check(segment: &Segment, after: u64, file_bytes: u64) -> Result<(), Problem> {
    let end = segment.address.checked_add(segment.memory_bytes).filter(|end| *end < 1 << 47);
    let content = segment.offset.checked_add(segment.file_bytes).filter(|end| *end <= file_bytes);
    let is_good = segment.address >= after && segment.file_bytes <= segment.memory_bytes;
    if end.is_some() && content.is_some() && is_good { Ok(()) } else { Err(Problem::Headers) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    /// A header: type, flags, offset, address, bytes in the file, bytes in memory.
    type Row = (u32, u32, u64, u64, u64, u64);

    fn file(kind: u16, machine: u16, rows: &[Row]) -> Vec<u8> {
        let mut file = Vec::from(*b"\x7fELF\x02\x01\x01");
        file.resize(16, 0);
        [kind, machine].iter().for_each(|half| file.extend(half.to_le_bytes()));
        file.extend(1u32.to_le_bytes());
        [0x40_1000u64, 64, 0].iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.extend(0u32.to_le_bytes());
        [64, 56, rows.len() as u16, 64, 0, 0].iter().for_each(|half: &u16| file.extend(half.to_le_bytes()));
        for (kind, flags, offset, address, bytes, memory) in rows {
            [*kind, *flags].iter().for_each(|word| file.extend(word.to_le_bytes()));
            let words = [*offset, *address, *address, *bytes, *memory, 1];
            words.iter().for_each(|word| file.extend(word.to_le_bytes()));
        }
        file
    }

    const TEXT: Row = (PT_LOAD, PF_R | PF_X, 0, 0x40_0000, 0x2000, 0x2000);
    const DATA: Row = (PT_LOAD, PF_R | PF_W, 0x2000, 0x41_2000, 0x100, 0x900);

    #[test]
    fn a_static_program() {
        let program = read(&file(ET_EXEC, EM_AARCH64, &[TEXT, DATA]), 0x2100).expect("a program");
        assert_eq!((program.entry, program.is_movable, program.segments.len()), (0x40_1000, false, 2));
        assert_eq!((program.range(), program.headers_address()), (0x40_0000..0x41_2900, Some(0x40_0040)));
        let data = program.segments[1];
        assert!(data.is_writable && data.is_readable && !data.is_executable);
        assert!(read(&file(ET_DYN, EM_AARCH64, &[TEXT]), 0x2000).expect("a program").is_movable);
        for (flags, expected) in [(PF_R | PF_W, false), (PF_R | PF_W | PF_X, true)] {
            let stack = (PT_GNU_STACK, flags, 0, 0, 0, 0);
            let program = read(&file(ET_EXEC, EM_AARCH64, &[TEXT, DATA, stack]), 0x2100).expect("a program");
            assert_eq!((program.has_executable_stack, program.segments.len()), (expected, 2));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |kind, machine, rows: &[Row]| read(&file(kind, machine, rows), 0x2100).expect_err("refused");
        assert_eq!(read(b"#!/bin/sh\n", 10).expect_err("refused"), Problem::NotElf);
        assert_eq!(refused(ET_EXEC, 62, &[TEXT]), Problem::NotAProgram(62, ET_EXEC));
        assert_eq!(refused(1, EM_AARCH64, &[TEXT]), Problem::NotAProgram(EM_AARCH64, 1));
        assert_eq!(refused(ET_DYN, EM_AARCH64, &[(PT_INTERP, 4, 0, 0, 8, 8), TEXT]), Problem::Dynamic);
        for rows in [&[DATA, TEXT][..], &[], &[(PT_LOAD, 4, 0x2000, 0, 0x101, 0x101)], &[(PT_LOAD, 4, 0, 0, 9, 8)]] {
            assert_eq!(refused(ET_EXEC, EM_AARCH64, rows), Problem::Headers, "{rows:x?}");
        }
        for address in [1 << 47, u64::MAX - 4] {
            assert_eq!(refused(ET_EXEC, EM_AARCH64, &[(PT_LOAD, 4, 0, address, 8, 8)]), Problem::Headers);
        }
        assert_eq!(refused(ET_EXEC, EM_AARCH64, &[TEXT; 17]), Problem::Headers);
    }

    #[test]
    fn no_damage_does_more_than_refuse() {
        let whole = file(ET_EXEC, EM_AARCH64, &[TEXT, DATA]);
        for at in 0..whole.len() {
            let _ = read(&whole[..at], 0x2100).is_ok();
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = read(&damaged, 0x2100).is_ok();
            }
        }
    }
}
