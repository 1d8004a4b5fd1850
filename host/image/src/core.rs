//! Cores: a guest's dump, kdump's vmcore, and the running kernel's `/proc/kcore`.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use elf::abi::PT_LOAD;
use elf::segment::ProgramHeader;

use crate::Error;
use crate::contents::Contents;
use crate::elf::{note, segments};
use crate::file::{FileMemory, Piece};
use crate::kdump::{self, Flattened};
use crate::machine::Machine;
use crate::memory::{END, Memory, total};
use crate::vmcoreinfo::{NOTE_NAME, VmcoreInfo};

/// The running kernel as an ELF core, for root alone.
const KCORE: &str = "/proc/kcore";

/// Opens a core: ELF, or a compressed kdump, each flattened or not. Files of one dump that is split are separated by commas.
pub(crate) fn open(path: &Path) -> Result<Machine, Error> {
    let text = path.to_string_lossy();
    let names = if path.exists() { Vec::from([path]) } else { text.split(',').map(Path::new).collect() };
    let about = |error: Error| Error::new(format!("{}: {error}", path.display()));
    let mut files = names.into_iter().map(contents).collect::<Result<Vec<_>, _>>()?;
    if files.len() > 1 || kdump::is_one(&*files[0]) {
        return kdump::open(files).map_err(about);
    }
    let file = files.remove(0);
    let data = file.data().map_err(|error| Error::io(path.display(), &error))?;
    of_elf(file, Some(&data)).map_err(about)
}

/// What a file holds, in order.
fn contents(path: &Path) -> Result<Box<dyn Contents>, Error> {
    let file = File::open(path).map_err(|error| Error::io(path.display(), &error))?;
    if !kdump::is_flattened(&file) {
        return Ok(Box::new(file));
    }
    let flattened = Flattened::new(Box::new(file));
    Ok(Box::new(flattened.map_err(|error| Error::new(format!("{}: {error}", path.display())))?))
}

/// The machine in an ELF core. `data` are the parts of the file that are not zeros, if it can say.
pub(crate) fn of_elf(file: Box<dyn Contents>, data: Option<&[Range<u64>]>) -> Result<Machine, Error> {
    let segments = segments(&*file)?;
    let info = note(&*file, &segments, NOTE_NAME).map(|note| VmcoreInfo::parse(&note));
    let pieces = pieces(&segments, info.as_ref());
    if pieces.is_empty() {
        return Err(Error::new("no segment says which physical memory it holds: save it with paging off"));
    }
    let memory = FileMemory::new(file, pieces, data);
    let (held, in_file) = (total(memory.held()), data.map_or(u64::MAX, total));
    if held > in_file {
        let line =
            format!("segments of {held:#x} bytes in a file with {in_file:#x}: they overlap there, save it again");
        return Err(Error::new(line));
    }
    let mut machine = Machine::new(Box::new(memory));
    machine.vmcoreinfo = info;
    Ok(machine)
}

/// Opens the running kernel's memory.
pub(crate) fn open_kcore() -> Result<Machine, Error> {
    if !cfg!(target_arch = "aarch64") {
        let line = format!("{KCORE}: this is not an arm64 machine; build vellum for one with cargo xtask dist");
        return Err(Error::new(line));
    }
    let file = File::open(KCORE).map_err(|error| Error::io(KCORE, &error))?;
    let machine = of_elf(Box::new(file), None).map_err(|error| Error::new(format!("{KCORE}: {error}")))?;
    match machine.vmcoreinfo {
        Some(_) => Ok(machine),
        None => Err(Error::new(format!("{KCORE} has no vmcoreinfo note (Linux 4.19 and later have one)"))),
    }
}

/// Where the file keeps which physical memory. A segment that does not tell is placed by the kernel's linear map.
fn pieces(segments: &[ProgramHeader], info: Option<&VmcoreInfo>) -> Vec<Piece> {
    let loads = segments.iter().filter(|segment| segment.p_type == PT_LOAD && segment.p_memsz > 0);
    let linear = info.and_then(VmcoreInfo::linear_map);
    loads
        .filter_map(|segment| {
            let start = physical(segment, linear)?;
            start.checked_add(segment.p_memsz).filter(|end| *end <= END)?;
            Some(Piece {
                start,
                size_bytes: segment.p_memsz,
                offset: segment.p_offset,
                file_bytes: segment.p_filesz.min(segment.p_memsz),
            })
        })
        .collect()
}

fn physical(segment: &ProgramHeader, linear: Option<(u64, u64)>) -> Option<u64> {
    let is_told = segment.p_paddr != u64::MAX && (segment.p_paddr != 0 || segment.p_vaddr == 0);
    if is_told {
        return Some(segment.p_paddr);
    }
    let (base, first) = linear?;
    let half = base.wrapping_neg() / 2;
    let offset = segment.p_vaddr.checked_sub(base).filter(|offset| *offset < half)?;
    first.checked_add(offset)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn load(p_vaddr: u64, p_paddr: u64) -> ProgramHeader {
        let (p_offset, p_filesz, p_memsz) = (0x1000, 9, 8);
        ProgramHeader { p_type: PT_LOAD, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_flags: 0, p_align: 0 }
    }

    #[test]
    fn segments_say_where_they_are_or_lie_in_the_linear_map() {
        let linear = Some((0xffff_0000_0000_0000, 0x4000_0000));
        assert_eq!(physical(&load(0, 0), None), Some(0));
        assert_eq!(physical(&load(0xffff_0000_0000_0000, 0x4000_0000), None), Some(0x4000_0000));
        assert_eq!(physical(&load(0xffff_0000_1000_0000, u64::MAX), linear), Some(0x5000_0000));
        assert_eq!(physical(&load(0xffff_0000_1000_0000, 0), linear), Some(0x5000_0000));
        assert_eq!(physical(&load(0xffff_8000_1000_0000, u64::MAX), linear), None, "vmalloc");
        assert_eq!(physical(&load(0xffff_0000_1000_0000, u64::MAX), None), None);
    }

    #[test]
    fn impossible_segments_are_left_out() {
        let mut wrong = load(0, 0);
        for start in [END - 7, u64::MAX - 0xfff, u64::MAX - 3] {
            wrong.p_paddr = start;
            assert!(pieces(&[wrong], None).is_empty(), "{start:#x}: it ends beyond all physical addresses");
        }
        wrong.p_paddr = END - 8;
        assert_eq!(pieces(&[wrong], None).len(), 1);
        wrong.p_paddr = 0;
        assert_eq!(pieces(&[wrong], None)[0].file_bytes, 8);
        wrong.p_memsz = 0;
        assert!(pieces(&[wrong], None).is_empty());
    }

    /// A file of this many bytes of data, none of which a search may read.
    struct Unread(u64);

    impl Contents for Unread {
        fn read_at(&self, _: &mut [u8], _: u64) -> std::io::Result<usize> {
            panic!("it is read");
        }

        fn data(&self) -> std::io::Result<Vec<Range<u64>>> {
            Ok(Vec::from_iter(std::iter::once(0..self.0)))
        }
    }

    #[test]
    fn what_a_file_does_not_hold_is_not_searched() {
        for size in [1, 1 << 40, END - 1, END] {
            let piece = Piece { start: 0, size_bytes: size, offset: 0, file_bytes: 0 };
            let mut memory = FileMemory::new(Box::new(Unread(0)), Vec::from([piece]), Some(&[]));
            assert_eq!(memory.ranges(), from_ref(&(0..size)));
            assert_eq!(crate::search::search(&mut memory, &mut |_, _| {}), Ok(Vec::new()));
            assert_eq!(crate::vmcoreinfo::find_in_memory(&mut memory), Ok(None));
        }
    }

    /// The same memory in several segments is not more memory; more memory than the file has is refused.
    #[test]
    fn segments_hold_no_more_than_the_file_has() {
        let piece = |start: u64, bytes| Piece { start, size_bytes: bytes, offset: 0x1000, file_bytes: bytes };
        let held = |pieces: &[Piece], data: u64| {
            let memory = FileMemory::new(Box::new(Unread(data)), pieces.to_vec(), Some(from_ref(&(0..data))));
            total(memory.held())
        };
        assert_eq!(held(&[piece(0, 0x2000), piece(0, 0x2000)], 0x3000), 0x2000);
        assert_eq!(held(&[piece(0, 0x2000)], 0x2000), 0x1000, "the file ends before");
        assert_eq!(held(&[piece(0, 0x2000)], 0x1000), 0);
        assert_eq!(held(&[piece(0, 0x2000), piece(0x8000, 0x2000)], 0x3000), 0x4000);
    }
}
