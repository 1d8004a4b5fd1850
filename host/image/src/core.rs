//! ELF cores: a guest's dump, kdump's vmcore, and the running kernel's `/proc/kcore`.

use std::fs::File;
use std::path::Path;

use elf::abi::PT_LOAD;
use elf::segment::ProgramHeader;

use crate::Error;
use crate::elf::{note, segments};
use crate::file::{FileMemory, Piece};
use crate::machine::Machine;
use crate::vmcoreinfo::{NOTE_NAME, VmcoreInfo};

/// The running kernel as an ELF core, for root alone.
const KCORE: &str = "/proc/kcore";

/// Opens an ELF core.
pub(crate) fn open(path: &Path) -> Result<Machine, Error> {
    let what = path.display();
    let about = |error: Error| Error::new(format!("{what}: {error}"));
    let file = File::open(path).map_err(|error| Error::io(&what, &error))?;
    let segments = segments(&file).map_err(about)?;
    let info = note(&file, &segments, NOTE_NAME).map(|note| VmcoreInfo::parse(&note));
    let pieces = pieces(&segments, info.as_ref());
    if pieces.is_empty() {
        return Err(Error::new(format!(
            "{what}: no segment says which physical memory it holds: save it with paging off"
        )));
    }
    let mut machine = Machine::new(Box::new(FileMemory::new(file, pieces)));
    machine.vmcoreinfo = info;
    Ok(machine)
}

/// Opens the running kernel's memory.
pub(crate) fn open_kcore() -> Result<Machine, Error> {
    if !cfg!(target_arch = "aarch64") {
        let line = format!("{KCORE}: this is not an arm64 machine; build vellum for one with cargo xtask dist");
        return Err(Error::new(line));
    }
    let machine = open(Path::new(KCORE))?;
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
            start.checked_add(segment.p_memsz)?;
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
        let mut wrong = load(0, u64::MAX - 3);
        assert!(pieces(&[wrong], None).is_empty(), "it ends beyond 64 bits");
        wrong.p_paddr = 0;
        assert_eq!(pieces(&[wrong], None)[0].file_bytes, 8);
        wrong.p_memsz = 0;
        assert!(pieces(&[wrong], None).is_empty());
    }
}
