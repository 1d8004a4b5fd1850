//! Values of arguments: numbers, ranges, levels, granules.

use vmsa::{Level, PageSize};

/// `START-END`, as first and last address. An end of 0, or none, is the end of the upper half.
pub(crate) fn range(text: &str) -> Result<(u64, u64), String> {
    let expected = || format!("`{text}` is no range: START-END, such as 0xffff000000000000-0xffff000040000000");
    let (start, end) = text.split_once('-').ok_or_else(expected)?;
    let start = word(start).map_err(|_| expected())?;
    let end = if end.is_empty() { 0 } else { word(end).map_err(|_| expected())? };
    let last = end.wrapping_sub(1);
    if start <= last { Ok((start, last)) } else { Err(format!("the range {text} is empty")) }
}

/// A number, or `linux`: the order in which Linux numbers memory types, whose names its own dump prints by number alone.
pub(crate) fn mair(text: &str) -> Result<u64, String> {
    if text.eq_ignore_ascii_case("linux") {
        return Ok(vmsa::registers::MemoryTypes::COMMON.0);
    }
    word(text).map_err(|error| error.to_string())
}

/// A register, a descriptor or an address. Digits that could be meant as decimal are said to be read as hexadecimal.
pub(crate) fn word(text: &str) -> Result<u64, image::Error> {
    let value = image::number(text)?;
    if text.len() > 1 && text.bytes().all(|digit| digit.is_ascii_digit()) && value > 9 {
        crate::say::note(format!("{text} is read as hexadecimal; decimal is 0d{text}"));
    }
    Ok(value)
}

/// A level, −1 to 3.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    text.parse().ok().and_then(Level::new).ok_or_else(|| format!("`{text}` is no level: -1 to 3"))
}

/// A granule: `4k`, `16k`, `64k`.
pub(crate) fn page_size(text: &str) -> Result<PageSize, String> {
    let known = |size: &PageSize| size.to_string().eq_ignore_ascii_case(text.trim_end_matches(['b', 'B', 'i']));
    PageSize::ALL.into_iter().find(known).ok_or_else(|| format!("`{text}` is no granule: 4k, 16k or 64k"))
}
