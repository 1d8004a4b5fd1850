//! Our kernel beside one of the same sources for pages of 4K alone.

use std::fmt::Write;

use elf::{
    ElfBytes,
    abi::{SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS},
    endian::LittleEndian,
    section::SectionHeader,
};
use fs_err as fs;

use super::{
    boots::{Initrd, costs, of_ours},
    settings::{PAGES, Row, SETTINGS},
};
use crate::{bare::Program, boot::Programs, outcome::Failure};

/// A table of what the choice of the page size at boot costs.
pub(super) fn fixed_page_size(program: &[u8]) -> Result<String, Failure> {
    let (initrd, setting) = (Initrd::write(program)?, &SETTINGS[0]);
    let measure = |built: Programs| {
        let sizes = sizes(&fs::read(&built.find(Program::Kernel)?.elf)?);
        Ok((costs(setting, &of_ours("4k", setting), &initrd, &built, &mut String::new())?, sizes))
    };
    // The second build takes the first one's place.
    let fixed = Programs::in_place_of_ours(Program::KernelOf4K, &mut |line| eprintln!("{line}")).and_then(measure);
    let ours = Programs::build(&[Program::Kernel], &mut |line| eprintln!("{line}")).and_then(measure);
    let ((fixed, fixed_sizes), (ours, sizes)) = (fixed?, ours?);
    let mut text = "| 4k | fixed | chosen at boot | more |\n|---|--:|--:|--:|\n".to_owned();
    PAGES.iter().for_each(|Row { key, name, .. }| row(&mut text, name, fixed[*key], ours[*key]));
    row(&mut text, "text, bytes", fixed_sizes[0], sizes[0]);
    row(&mut text, "constants and data, bytes", fixed_sizes[1], sizes[1]);
    Ok(text)
}

fn row(text: &mut String, name: &str, other: u64, ours: u64) {
    let more = (ours as f64 / other.max(1) as f64 - 1.0) * 100.0;
    let _ = writeln!(text, "| {name} | {other} | {ours} | {:+}, {more:+.2} % |", ours as i64 - other as i64);
}

/// Bytes of instructions, and of what else a kernel's file has that is loaded.
fn sizes(elf: &[u8]) -> [u64; 2] {
    let sections = ElfBytes::<LittleEndian>::minimal_parse(elf).ok().and_then(|file| file.section_headers());
    let is_loaded = |one: &SectionHeader| one.sh_type == SHT_PROGBITS && one.sh_flags & u64::from(SHF_ALLOC) != 0;
    sections.into_iter().flatten().filter(is_loaded).fold([0; 2], |mut sizes, one| {
        sizes[usize::from(one.sh_flags & u64::from(SHF_EXECINSTR) == 0)] += one.sh_size;
        sizes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_more_costs_is_told_by_number_and_part() {
        let mut text = String::new();
        row(&mut text, "x", 200, 250);
        row(&mut text, "y", 200, 150);
        assert_eq!(text, "| x | 200 | 250 | +50, +25.00 % |\n| y | 200 | 150 | -50, -25.00 % |\n");
    }
}
