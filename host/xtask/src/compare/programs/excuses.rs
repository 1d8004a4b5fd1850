//! Differences that are known: `programs/excuses.tsv`, each with its reason.

use fs_err as fs;

use super::differences::Difference;
use crate::{cargo, outcome::Failure};

/// The committed list, from the workspace's root: program, side, line, reason.
const LIST: &str = "programs/excuses.tsv";
/// As many rows as there may be.
const MOST: usize = 20;

/// A row, which excuses one line of each run of its program.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Excuse {
    program: String,
    is_ours: bool,
    /// `*` stands for whatever is there.
    line: String,
}

/// All rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Excuses(Vec<Excuse>);

impl Excuses {
    /// Reads the committed list.
    pub(super) fn read() -> Result<Excuses, Failure> {
        let path = cargo::workspace().join(LIST);
        let text = fs::read_to_string(&path)?;
        parse(&text)
    }

    /// The differences that no row excuses.
    pub(super) fn without_excused(&self, program: &str, all: &[Difference]) -> Vec<Difference> {
        let mut rows: Vec<&Excuse> = self.0.iter().filter(|row| row.program == program).collect();
        let is_left = |one: &&Difference| {
            let place = rows.iter().position(|row| row.is_ours == one.is_ours && matches(&row.line, &one.line));
            place.map(|place| rows.remove(place)).is_none()
        };
        all.iter().filter(is_left).cloned().collect()
    }
}

fn parse(text: &str) -> Result<Excuses, Failure> {
    let expected = "a program, - (Linux) or + (ours), a line and a reason";
    let rows = rows(LIST, text, expected, |[program, side, line]| {
        let is_ours = [("-", false), ("+", true)].iter().find(|(name, _)| *name == side)?.1;
        Some(Excuse { program: program.into(), is_ours, line: line.into() })
    })?;
    if rows.len() > MOST {
        return Err(Failure::failed(format!("{LIST}: {} rows, expected {MOST} at most", rows.len())));
    }
    Ok(Excuses(rows))
}

/// The rows of a list: three columns and a reason, with tabs between; `#` begins a comment.
pub(crate) fn rows<T>(
    list: &str,
    text: &str,
    expected: &str,
    read: impl Fn([&str; 3]) -> Option<T>,
) -> Result<Vec<T>, Failure> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let row = |(number, line): (usize, &str)| {
        let row = match line.split('\t').collect::<Vec<_>>()[..] {
            [one, two, three, reason] if !reason.trim().is_empty() => read([one, two, three]),
            _ => None,
        };
        let line = || format!("{list}:{number}: expected {expected}, with tabs between");
        row.ok_or_else(|| Failure::failed(line()))
    };
    lines.map(row).collect()
}

/// Whether a line is as a row says.
pub(crate) fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(is_ours: bool, line: &str) -> Difference {
        Difference { is_ours, line: line.into() }
    }

    #[test]
    fn a_row_excuses_one_line_of_its_program() {
        let excuses = parse("# comment\na\t-\tup * days\tthe clock\na\t+\tup * days\tthe clock\n").expect("a list");
        let all = [difference(false, "up 3 days"), difference(true, "up 4 days"), difference(true, "up 5 days")];
        assert_eq!(excuses.without_excused("a", &all), [difference(true, "up 5 days")]);
        assert_eq!(excuses.without_excused("b", &all), all);
    }

    #[test]
    fn rows_are_few_and_have_a_reason() {
        for bad in ["a", "a\t-\tline", "a\t-\tline\t ", "a\t=\tline\twhy"] {
            assert!(parse(bad).is_err_and(|failure| failure.line.contains("excuses.tsv:1: ")), "{bad}");
        }
        assert!(parse(&"a\t-\tb\twhy\n".repeat(MOST + 1)).is_err());
        assert!(Excuses::read().is_ok());
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, line) in [("a*c", "abc"), ("*", ""), ("a", "a"), ("*b*", "abc"), ("a*b*c", "a1b2c")] {
            assert!(matches(pattern, line), "{pattern} {line}");
        }
        for (pattern, line) in [("a", "ab"), ("a*c", "ab"), ("*b*", "ac"), ("a*a", "a")] {
            assert!(!matches(pattern, line), "{pattern} {line}");
        }
    }
}
