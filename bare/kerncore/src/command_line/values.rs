//! What the values of options are read as.

use vmsa::{BbmLevel, PageSize};

use super::PageSizes;

/// A decimal number of digits only (a sign, which `parse` would take, is none); one that is too large is the largest.
pub(super) fn digits(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX))
}

/// What a word stands for.
pub(super) fn word<T: Copy>(value: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| value == *word).map(|(_, meaning)| *meaning)
}

pub(super) fn number(value: &str, least: u32, most: u32) -> Option<u32> {
    let number = u32::try_from(digits(value)?).ok()?;
    (least..=most).contains(&number).then_some(number)
}

/// A number of mebibytes or gibibytes, in bytes.
pub(super) fn size(value: &str) -> Option<u64> {
    let shift = match value.as_bytes().last()? {
        b'M' => 20,
        b'G' => 30,
        _ => return None,
    };
    let number = u32::try_from(digits(&value[..value.len() - 1])?).ok()?;
    Some(u64::from(number) << shift)
}

pub(super) fn page_size(value: &str) -> Option<PageSize> {
    let names = [("4k", PageSize::Size4K), ("16k", PageSize::Size16K), ("64k", PageSize::Size64K)];
    names.into_iter().find(|(name, _)| value.eq_ignore_ascii_case(name)).map(|(_, size)| size)
}

pub(super) fn page_sizes(value: &str) -> Option<PageSizes> {
    value.split(',').try_fold(PageSizes::default(), |sizes, name| Some(sizes.with(page_size(name)?)))
}

pub(super) fn bbm_level(value: &str) -> Option<BbmLevel> {
    let levels = [BbmLevel::Level0, BbmLevel::Level1, BbmLevel::Level2, BbmLevel::Level3];
    levels.get(digits(value)?).copied()
}

/// The values that ID_AA64MMFR0_EL1.PARange can say, up to the largest we map.
pub(super) fn physical_bits(value: &str) -> Option<u32> {
    number(value, 32, 52).filter(|bits| [32, 36, 40, 42, 44, 48, 52].contains(bits))
}
