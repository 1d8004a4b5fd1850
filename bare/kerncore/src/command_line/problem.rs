//! What can be wrong with our options, and the guess at what was meant.

use core::fmt;

use super::cpu::{CpuOverride, PageSizes};
use crate::text::Text;

/// One thing wrong with the command line; all are survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's line in Display says what its fields are")]
pub enum Problem<'a> {
    Unknown { option: Text<'a>, nearest: &'static str },
    NoSuchCpu { option: Text<'a> },
    BadValue { option: Text<'a>, value: Option<Text<'a>>, expected: &'static str, instead: &'static str },
    Repeated { option: Text<'a> },
    UnclosedQuote { word: Text<'a> },
    Test { cpu: usize, belief: CpuOverride },
    BootCpuLacks { granules: PageSizes },
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { option, nearest } => {
                write!(f, "option {option} is unknown, the nearest that is known is {nearest}; ignored")
            }
            Self::NoSuchCpu { option } => write!(f, "option {option} is about no CPU, expected 0 to 7; ignored"),
            Self::BadValue { option, value: Some(value), expected, instead } => {
                write!(f, "{option}={value} makes no sense, expected {expected}; {instead}")
            }
            Self::BadValue { option, value: None, expected, instead } => {
                write!(f, "{option} has no value, expected {expected}; {instead}")
            }
            Self::Repeated { option } => write!(f, "option {option} is given again, expected once; this value is used"),
            Self::Test { cpu, belief } => {
                write!(f, "this is a test: cpu {cpu} is to believe of itself {belief}, whatever it has")
            }
            Self::BootCpuLacks { granules } => write!(
                f,
                "vellum.cpu0.granules claims {granules}, expected granules that cpu 0 has, as it translates by one of them; \
                 those that it lacks are not believed"
            ),
            Self::UnclosedQuote { word } => {
                write!(f, "the quote in {word} is not closed, expected another; taken up to the end")
            }
        }
    }
}

/// Names are compared by this much of them.
const COMPARED_BYTES: usize = 32;

/// The one of `known` that takes the fewest changes of a letter, case aside, to reach from `name`; the first of several.
pub(super) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> &'k str {
    known.min_by_key(|known| distance(name.as_bytes(), known.as_bytes())).unwrap_or("")
}

/// The fewest letters to put in, take out or exchange (Levenshtein's distance).
fn distance(from: &[u8], to: &[u8]) -> usize {
    let from = &from[..from.len().min(COMPARED_BYTES)];
    let to = &to[..to.len().min(COMPARED_BYTES)];
    // row[j] is the distance from what of `from` was seen to the first j letters of `to`.
    let mut row: [usize; COMPARED_BYTES + 1] = core::array::from_fn(|index| index);
    for (seen, &letter) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = seen + 1;
        for (index, &other) in to.iter().enumerate() {
            let exchanged = diagonal + usize::from(!letter.eq_ignore_ascii_case(&other));
            diagonal = row[index + 1];
            row[index + 1] = exchanged.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
