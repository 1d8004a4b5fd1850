//! What the kernel said: its text taken apart into sections, checks, times and the verdict.
//!
//! ```text
//! # checks                                              a section begins
//! check read-only data: ok (fault at 0x…)               a check
//! # verdict
//! verdict: passed (7 checks)                            the one line that counts
//! ```

/// The kernel's text, line by line.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    /// Name of the section it stands in; empty before the first.
    section: String,
    text: String,
}

/// One self-check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Check<'t> {
    pub(crate) name: &'t str,
    pub(crate) passed: bool,
}

/// The kernel's own verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict<'t> {
    Passed { checks: usize },
    Failed { failed: usize, checks: usize },
    BadInput { reason: &'t str },
}

/// The name of the section that `line` begins, if it begins one.
pub(crate) fn section_start(line: &str) -> Option<&str> {
    line.strip_prefix("# ")
}

impl Transcript {
    pub(crate) fn new(output: &[u8]) -> Transcript {
        let mut section = String::new();
        let mut lines = Vec::new();
        for text in String::from_utf8_lossy(output).lines() {
            if let Some(name) = section_start(text) {
                section = name.to_string();
            } else {
                lines.push(Line { section: section.clone(), text: text.to_string() });
            }
        }
        Transcript { lines }
    }

    /// All lines but the ones that begin a section.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.text.as_str())
    }

    /// The lines of one section.
    pub(crate) fn section(&self, name: &str) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |line| line.section == name).map(|line| line.text.as_str())
    }

    /// The self-checks, in order. A line that says neither `ok` nor `FAILED` did not pass.
    pub(crate) fn checks(&self) -> Vec<Check<'_>> {
        let rests = self.section("checks").filter_map(|line| line.strip_prefix("check "));
        rests
            .map(|rest| {
                let (name, outcome) = rest.split_once(": ").unwrap_or((rest, ""));
                Check { name, passed: outcome == "ok" || outcome.starts_with("ok (") }
            })
            .collect()
    }

    /// The verdict; none if the kernel gave none, or one that is not understood, or more than one.
    pub(crate) fn verdict(&self) -> Option<Verdict<'_>> {
        let mut verdicts = self.section("verdict").filter_map(|line| line.strip_prefix("verdict: "));
        match (verdicts.next(), verdicts.next()) {
            (Some(only), None) => parse_verdict(only),
            _ => None,
        }
    }

    /// Instructions from the first to the first self-check, from a line of `# times` like
    /// `first self-check   12345678 instructions   0.0123 s`.
    pub(crate) fn instructions_to_first_check(&self) -> Option<u64> {
        let rest = self.section("times").find_map(|line| line.trim_start().strip_prefix("first self-check"))?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let unit = words.iter().position(|&word| word == "instructions")?;
        words.get(unit.checked_sub(1)?)?.parse().ok()
    }

    /// Bytes of tables of the linear map, from the line `linear map tables: N bytes` of `# summary`.
    pub(crate) fn linear_map_table_bytes(&self) -> Option<u64> {
        let rest = self.section("summary").find_map(|line| line.trim_start().strip_prefix("linear map tables: "))?;
        rest.split_once(" bytes")?.0.trim().parse().ok()
    }
}

/// `passed (N checks)`, `failed (K of N checks)` or `bad input (reason)`.
fn parse_verdict(text: &str) -> Option<Verdict<'_>> {
    let (word, detail) = text.trim_end().strip_suffix(')')?.split_once(" (")?;
    let count = |text: &str| text.strip_suffix(" checks").or(text.strip_suffix(" check"))?.parse().ok();
    match word {
        "passed" => Some(Verdict::Passed { checks: count(detail)? }),
        "failed" => {
            let (failed, checks) = detail.split_once(" of ")?;
            Some(Verdict::Failed { failed: failed.parse().ok()?, checks: count(checks)? })
        }
        "bad input" => Some(Verdict::BadInput { reason: detail }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(text: &str) -> Transcript {
        Transcript::new(text.as_bytes())
    }

    #[test]
    fn sections_hold_their_lines_with_either_line_ending() {
        let transcript = transcript("early\r\n# detected\r\ncpu 0\r\n\r\n# summary\nleaves\n");
        assert_eq!(transcript.lines().collect::<Vec<_>>(), ["early", "cpu 0", "", "leaves"]);
        assert_eq!(transcript.section("detected").collect::<Vec<_>>(), ["cpu 0", ""]);
        assert_eq!(transcript.section("summary").collect::<Vec<_>>(), ["leaves"]);
        assert_eq!(transcript.section("times").count(), 0);
    }

    #[test]
    fn checks_pass_only_by_saying_so() {
        let transcript = transcript(
            "check elsewhere: ok (not a check)\n# checks\ncheck read-only data: ok (0x10)\ncheck b: ok\n\
             check c: FAILED (why)\ncheck d: okay\ncheck e\nnothing\n",
        );
        let checks = transcript.checks();
        let seen: Vec<_> = checks.iter().map(|check| (check.name, check.passed)).collect();
        assert_eq!(seen, [("read-only data", true), ("b", true), ("c", false), ("d", false), ("e", false)]);
    }

    #[test]
    fn verdicts() {
        for (text, expected) in [
            ("verdict: passed (7 checks)", Some(Verdict::Passed { checks: 7 })),
            ("verdict: passed (1 check)", Some(Verdict::Passed { checks: 1 })),
            ("verdict: failed (2 of 7 checks)", Some(Verdict::Failed { failed: 2, checks: 7 })),
            ("verdict: bad input (no (usable) memory)", Some(Verdict::BadInput { reason: "no (usable) memory" })),
            ("verdict: passed", None),
            ("verdict: passed (all checks)", None),
            ("verdict: passed (7 checks)\nverdict: passed (7 checks)", None),
            ("verdict: fine (7 checks)", None),
            ("passed (7 checks)", None),
            ("", None),
        ] {
            assert_eq!(transcript(&format!("# verdict\r\n{text}\r\n")).verdict(), expected, "{text}");
        }
        assert_eq!(transcript("# checks\nverdict: passed (7 checks)\n").verdict(), None);
    }

    #[test]
    fn instructions_to_the_first_check() {
        for (line, expected) in [
            ("first self-check   12345678 instructions   0.0123 s", Some(12_345_678)),
            ("  first self-check: 5 instructions", Some(5)),
            ("first self-check   0.0123 s", None),
            ("first self-check   instructions", None),
            ("second self-check   7 instructions", None),
        ] {
            let transcript = transcript(&format!("# times\nmmu on   11 instructions\n{line}\n"));
            assert_eq!(transcript.instructions_to_first_check(), expected, "{line}");
        }
        assert_eq!(transcript("first self-check 5 instructions\n").instructions_to_first_check(), None);
    }

    #[test]
    fn bytes_of_tables() {
        for (line, expected) in [
            ("linear map tables: 12288 bytes", Some(12_288)),
            ("linear map tables: 12288 bytes (3 tables)", Some(12_288)),
            ("linear map tables: many bytes", None),
            ("linear map tables: 12 KiB", None),
            ("image tables: 4096 bytes", None),
        ] {
            assert_eq!(transcript(&format!("# summary\r\n{line}\r\n")).linear_map_table_bytes(), expected, "{line}");
        }
    }
}
