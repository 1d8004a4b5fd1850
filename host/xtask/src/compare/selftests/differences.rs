//! Which parts of a test come to something else than on Linux, and which of those are known: `programs/selftests.tsv`.

use std::{collections::BTreeMap, fmt};

use fs_err as fs;

use super::results::{Part, Verdict};
use crate::{cargo, compare::programs::excuses, outcome::Failure};

/// All parts of one name, which may be many: of each size of folios there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Difference {
    name: String,
    theirs: Vec<Verdict>,
    ours: Vec<Verdict>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} on Linux, {} on ours", self.name, counted(&self.theirs), counted(&self.ours))
    }
}

fn counted(verdicts: &[Verdict]) -> String {
    let words = [
        (Verdict::Passed, "passed"),
        (Verdict::Skipped, "skipped"),
        (Verdict::KnownToFail, "known to fail"),
        (Verdict::Failed, "failed"),
    ];
    let count = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    let parts = words.iter().filter(|(verdict, _)| count(*verdict) > 0);
    let parts: Vec<String> = parts.map(|(verdict, word)| format!("{} {word}", count(*verdict))).collect();
    if parts.is_empty() { "not there".into() } else { parts.join(" and ") }
}

/// All that differs. Where the pages have another size than Linux's, sizes of folios do, too: then what counts is what parts came to
/// that both have, and not how many there are.
pub(super) fn of(theirs: &[Part], ours: &[Part], has_same_pages: bool) -> Vec<Difference> {
    let mut all: BTreeMap<&str, [Vec<Verdict>; 2]> = BTreeMap::new();
    for (side, parts) in [theirs, ours].into_iter().enumerate() {
        parts.iter().for_each(|part| all.entry(&part.name).or_default()[side].push(part.verdict));
    }
    let mut found = Vec::new();
    for (name, mut both) in all {
        both.iter_mut().for_each(|verdicts| verdicts.sort());
        if !has_same_pages {
            both.iter_mut().for_each(Vec::dedup);
        }
        let [theirs, ours] = both;
        let is_absent = theirs.is_empty() || ours.is_empty();
        if theirs != ours && (has_same_pages || !is_absent) {
            found.push(Difference { name: name.into(), theirs, ours });
        }
    }
    found
}

/// The committed list, from the workspace's root: test, part, what it comes to on our kernel, reason.
const LIST: &str = "programs/selftests.tsv";

/// Parts that are known to differ.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Known(Vec<Row>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    test: String,
    /// `*` stands for whatever is there.
    part: String,
    /// None if our kernel does not come to that part.
    verdict: Option<Verdict>,
}

impl Known {
    pub(super) fn read() -> Result<Known, Failure> {
        let path = cargo::workspace().join(LIST);
        let text = fs::read_to_string(&path)?;
        parse(&text)
    }

    /// Whether a row has this difference: our kernel comes to what the row says, or to what Linux does.
    pub(super) fn has(&self, test: &str, difference: &Difference) -> bool {
        let fits = |row: &&Row| row.test == test && excuses::matches(&row.part, &difference.name);
        self.0.iter().filter(fits).any(|row| match row.verdict {
            None => difference.ours.is_empty(),
            Some(verdict) => {
                let is_known = |one: &Verdict| *one == verdict || difference.theirs.contains(one);
                !difference.ours.is_empty() && difference.ours.iter().all(is_known)
            }
        })
    }
}

fn parse(text: &str) -> Result<Known, Failure> {
    let expected = "a test, a part, passed, skipped, failed or absent, and a reason";
    let rows = excuses::rows(LIST, text, expected, |[test, part, verdict]| {
        let verdict = match verdict {
            "passed" => Some(Verdict::Passed),
            "skipped" => Some(Verdict::Skipped),
            "failed" => Some(Verdict::Failed),
            "absent" => None,
            _ => return None,
        };
        Some(Row { test: test.into(), part: part.into(), verdict })
    });
    rows.map(Known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(all: &[(&str, Verdict)]) -> Vec<Part> {
        all.iter().map(|(name, verdict)| Part { name: (*name).into(), verdict: *verdict }).collect()
    }

    #[test]
    fn parts_are_paired_by_name() {
        let theirs = parts(&[("a", Verdict::Passed), ("a", Verdict::Passed), ("b", Verdict::Skipped)]);
        let ours = parts(&[("b", Verdict::Skipped), ("a", Verdict::Passed), ("c", Verdict::Failed)]);
        let lines: Vec<String> = of(&theirs, &ours, true).iter().map(Difference::to_string).collect();
        assert_eq!(lines, ["a: 2 passed on Linux, 1 passed on ours", "c: not there on Linux, 1 failed on ours"]);
        assert_eq!(of(&theirs, &ours, false), [], "another page size has other folios");
        let failed = parts(&[("a", Verdict::Passed), ("a", Verdict::Failed)]);
        assert_eq!(of(&theirs, &failed, false).len(), 1);
    }

    #[test]
    fn a_row_has_one_verdict_of_its_part() {
        let known = parse("# comment\ncow\tb*\tskipped\twhy\ncow\tc\tabsent\twhy\n").expect("a list");
        let one = |name: &str, verdict| of(&parts(&[(name, Verdict::Passed)]), &parts(&[(name, verdict)]), true);
        assert!(known.has("cow", &one("bcd", Verdict::Skipped)[0]));
        assert!(!known.has("cow", &one("bcd", Verdict::Failed)[0]), "another verdict");
        assert!(!known.has("cow", &one("c", Verdict::Failed)[0]), "it is there");
        assert!(!known.has("mkdirty", &one("bcd", Verdict::Skipped)[0]), "another test");
        assert!(known.has("cow", &of(&parts(&[("c", Verdict::Passed)]), &[], true)[0]));
        for bad in ["a", "a\tb\tpassed\t ", "a\tb\twrong\twhy"] {
            assert!(parse(bad).is_err_and(|failure| failure.line.contains("selftests.tsv:1: ")), "{bad}");
        }
        assert!(Known::read().is_ok());
    }
}
