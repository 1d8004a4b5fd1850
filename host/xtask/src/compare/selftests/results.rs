//! What a selftest tells of its parts, in the Test Anything Protocol as Linux's selftests speak it.

use crate::compare::programs::told::{End, Told};

/// What came of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Verdict {
    Passed,
    Skipped,
    /// Of those that are known to fail, too: they fail for a reason that is Linux's.
    KnownToFail,
    Failed,
}

/// A part, by the name that it has on every kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) verdict: Verdict,
}

/// The parts of a test, and its end, which is a part too.
pub(super) fn of(told: &Told) -> Vec<Part> {
    let mut parts: Vec<Part> = told.lines.iter().filter_map(|line| part(line)).collect();
    // A test that skips itself as a whole says so with its status.
    const SKIPPED: i32 = 4;
    let verdict = match told.end {
        End::With(0) => Verdict::Passed,
        End::With(SKIPPED) => Verdict::Skipped,
        _ => Verdict::Failed,
    };
    let name = match &told.end {
        End::With(status @ (124 | 128..)) => format!("(ended with {status})"),
        End::Never(_) => "(never ended, or ended the machine)".into(),
        End::With(_) => "(the test as a whole)".into(),
    };
    parts.push(Part { name, verdict });
    parts
}

/// Reads `ok 1 name`, `ok 1 # SKIP name`, `not ok 1 name` or `Bail out! why`.
fn part(line: &str) -> Option<Part> {
    if let Some(why) = line.strip_prefix("Bail out! ") {
        return Some(Part { name: format!("(gave up: {})", sizeless(why)), verdict: Verdict::Failed });
    }
    let (is_good, rest) = match line.strip_prefix("ok ") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix("not ok ")?),
    };
    let (_, said) = rest.split_once(' ').filter(|(number, _)| number.parse::<u32>().is_ok())?;
    let marked = |mark: &str| said.strip_prefix(mark);
    let (name, verdict) = match (marked("# SKIP "), marked("# XFAIL ")) {
        (Some(name), _) => (name, Verdict::Skipped),
        (_, Some(name)) => (name, Verdict::KnownToFail),
        _ => (said, if is_good { Verdict::Passed } else { Verdict::Failed }),
    };
    Some(Part { name: sizeless(name), verdict })
}

/// A name without its sizes, which follow from the page size: `with THP (2048 kB)`.
fn sizeless(name: &str) -> String {
    let mut parts = name.split(" (");
    let mut short = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_size = part.split_once(" kB)").is_some_and(|(size, _)| size.parse::<u64>().is_ok());
        match part.split_once(')') {
            Some((_, rest)) if is_size => short.push_str(rest),
            _ => short.push_str(&format!(" ({part}")),
        }
    }
    short.trim().to_owned()
}

/// How many parts came to what, as a cell of the table: passed, skipped, failed, or known to fail.
pub(super) fn cell(parts: &[Part]) -> String {
    let count = |verdict| parts.iter().filter(|part| part.verdict == verdict).count();
    let [passed, skipped, failed, known] =
        [Verdict::Passed, Verdict::Skipped, Verdict::Failed, Verdict::KnownToFail].map(count);
    let known = if known == 0 { String::new() } else { format!("+{known}") };
    format!("{passed}/{skipped}/{failed}{known}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, end: End) -> Told {
        Told { lines: text.lines().map(String::from).collect(), end }
    }

    #[test]
    fn parts_and_the_end_are_read() {
        let text = "TAP version 13\n1..4\n# [RUN] x\nok 1 a ... with THP (2048 kB)\nok 2 # SKIP b (x) y\nnot ok 3 c\n\
                    ok 4 # XFAIL d\nok then\n# Totals: pass:1\n";
        let parts = of(&told(text, End::With(1)));
        let names: Vec<_> = parts.iter().map(|part| (part.name.as_str(), part.verdict)).collect();
        assert_eq!(
            names,
            [
                ("a ... with THP", Verdict::Passed),
                ("b (x) y", Verdict::Skipped),
                ("c", Verdict::Failed),
                ("d", Verdict::KnownToFail),
                ("(the test as a whole)", Verdict::Failed),
            ]
        );
        assert_eq!(cell(&parts), "1/1/2+1");
    }

    #[test]
    fn a_test_that_gives_up_has_failed_and_one_that_skips_itself_has_not() {
        let parts = of(&told("Bail out! opening pagemap failed\n", End::With(1)));
        assert_eq!(parts[0].name, "(gave up: opening pagemap failed)");
        assert_eq!(cell(&parts), "0/0/2");
        assert_eq!(cell(&of(&told("1..0 # SKIP nothing\n", End::With(4)))), "0/1/0");
        assert_eq!(cell(&of(&told("", End::Never("panic".into())))), "0/0/1");
    }
}
