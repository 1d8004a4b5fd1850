//! Dumps as text: their parts, and whether two agree.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

/// Where the linear map ends with 48 bits of virtual address.
const LINEAR_MAP_END: u64 = 0xffff_8000_0000_0000;

/// First and last address of a line.
fn addresses(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.strip_prefix("0x")?.split_whitespace().next()?.split_once("-0x")?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?.wrapping_sub(1)))
}

fn within(text: &str, range: RangeInclusive<u64>) -> impl Iterator<Item = &str> {
    text.lines().filter(move |line| addresses(line).is_some_and(|(first, _)| range.contains(&first)))
}

/// The lines of the linear map.
pub(crate) fn linear_map(text: &str) -> impl Iterator<Item = &str> {
    within(text, 0..=LINEAR_MAP_END - 1)
}

/// Whether a linear map of 2 GiB is there.
pub(crate) fn has_linear_map(text: &str) -> Result<(), String> {
    let mapped = linear_map(text).filter(|line| line.contains(" AF "));
    let bytes: u64 = mapped.filter_map(addresses).map(|(first, last)| last - first + 1).sum();
    if bytes == 2 << 30 { Ok(()) } else { Err(format!("the linear map has {bytes:#x} bytes, expected 2 GiB:\n{text}")) }
}

/// The kernel's image: where its first executable line begins, for as many bytes as its header says.
pub(crate) fn image(text: &str, kernel: &Path) -> Result<RangeInclusive<u64>, String> {
    let header = fs::read(kernel).map_err(|error| error.to_string())?;
    let size = header.get(16..24).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let size = size.filter(|size| *size > 0).ok_or("the kernel's header has no size")?;
    // The image's own head is not executable; it lies less than a block before the text.
    let executable = text.lines().filter(|line| line.contains(" x  ")).find_map(addresses);
    let (first, _) = executable.ok_or("nothing is executable")?;
    let base = first & !0x1f_ffff;
    Ok(base..=base + size - 1)
}

/// The size of a kernel's pages, as its header has it: 1 to 3 in bits 2:1 of the flags.
pub(crate) fn page_bytes(kernel: &Path) -> Result<u64, String> {
    let header = fs::read(kernel).map_err(|error| error.to_string())?;
    match header.get(24).map(|flags| flags >> 1 & 3) {
        Some(size @ 1..=3) => Ok(1 << (10 + 2 * size)),
        _ => Err("the kernel's header has no page size".to_owned()),
    }
}

/// Whether two dumps have the same linear map and image. Other differences are told: a kernel that idles still lives.
pub(crate) fn same(reference: &str, text: &str, image: RangeInclusive<u64>) -> Result<(), String> {
    let equal = |name: &str, one: Vec<&str>, other: Vec<&str>| match one == other && !one.is_empty() {
        true => Ok(()),
        false => Err(format!("{name} differs:\n- {}\n+ {}", one.join("\n- "), other.join("\n+ "))),
    };
    equal("the linear map", linear_map(reference).collect(), linear_map(text).collect())?;
    equal("the image", within(reference, image.clone()).collect(), within(text, image).collect())?;
    let elsewhere =
        |one: &str, other: &str| one.lines().filter(|line| !other.lines().any(|same| same == *line)).count();
    let (gone, new) = (elsewhere(reference, text), elsewhere(text, reference));
    if gone + new > 0 {
        println!("  elsewhere {gone} lines went and {new} came");
    }
    Ok(())
}
