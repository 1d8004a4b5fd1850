//! Which lines of a program differ between two kernels.

use std::fmt;

use similar::{ChangeTag, TextDiff};

use super::told::{End, Told};

/// A line, or an end, that one kernel has and the other has not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    pub(super) is_ours: bool,
    pub(super) line: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_ours { '+' } else { '-' }, self.line)
    }
}

/// All that differs, in the order of the lines; the ends come last.
pub(super) fn of(theirs: &Told, ours: &Told) -> Vec<Difference> {
    let mut found = lines(&theirs.lines, &ours.lines);
    if theirs.end != ours.end {
        found.push(Difference { is_ours: false, line: describe(&theirs.end) });
        found.push(Difference { is_ours: true, line: describe(&ours.end) });
    }
    found
}

fn describe(end: &End) -> String {
    match end {
        End::With(status) => format!("(ended with status {status})"),
        End::Never(last) if last.is_empty() => "(did not end, and nothing ended it)".into(),
        End::Never(last) => format!("(did not end, and nothing ended it; the kernel's last line: {last})"),
    }
}

fn lines(theirs: &[String], ours: &[String]) -> Vec<Difference> {
    let [theirs, ours] = [theirs, ours].map(|lines| lines.iter().map(String::as_str).collect::<Vec<_>>());
    let diff = TextDiff::from_slices(&theirs, &ours);
    let changes = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    changes
        .map(|change| Difference { is_ours: change.tag() == ChangeTag::Insert, line: change.value().to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &str, status: i32) -> Told {
        Told { lines: lines.split_whitespace().map(String::from).collect(), end: End::With(status) }
    }

    fn shown(theirs: &Told, ours: &Told) -> Vec<String> {
        of(theirs, ours).iter().map(Difference::to_string).collect()
    }

    #[test]
    fn lines_and_ends() {
        assert_eq!(shown(&told("a b c", 0), &told("a b c", 0)), [""; 0]);
        assert_eq!(
            shown(&told("a b c d", 0), &told("a x c", 1)),
            ["- b", "+ x", "- d", "- (ended with status 0)", "+ (ended with status 1)"]
        );
        let never = Told { lines: vec![], end: End::Never("panic".into()) };
        assert_eq!(
            shown(&told("", 0), &never)[1],
            "+ (did not end, and nothing ended it; the kernel's last line: panic)"
        );
    }
}
