//! What the kernel said: its text taken apart into sections, checks, times and the verdict.
//!
//! ```text
//! # checks                                              a section begins
//! check read-only data: ok (fault at 0x…)               a check
//! # verdict
//! verdict: passed (7 checks)                            the one line that counts
//! ```

use std::collections::HashMap;

use serde_json::Value;

/// How a line begins that says in JSON what the section before it said in words.
const DATA: &str = "{\"section\":\"";

/// The sections in which checks stand.
pub(super) const CHECKS: [&str; 2] = ["checks", "after init"];
/// How the second of them begins.
pub(crate) const AFTER_INIT: &str = "\n# after init";

/// The kernel's text, line by line, and what it said in JSON.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    lines: Vec<Line>,
    /// By section, where the kernel was asked for it.
    data: HashMap<String, Value>,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// So many checks have passed.
    Passed(usize),
    Failed,
    BadInput,
}

/// The name of the section that `line` begins, if it begins one.
pub(crate) fn section_start(line: &str) -> Option<&str> {
    line.strip_prefix("# ")
}

/// Whether a line is for programs.
pub(crate) fn is_data(line: &str) -> bool {
    line.starts_with(DATA)
}

impl Transcript {
    pub(crate) fn new(output: &[u8]) -> Transcript {
        let mut section = String::new();
        let (mut lines, mut data) = (Vec::new(), HashMap::new());
        for text in String::from_utf8_lossy(output).lines() {
            if let Some(name) = section_start(text) {
                section = name.to_string();
            } else if is_data(text) {
                data.insert(section.clone(), serde_json::from_str(text).unwrap_or_default());
            } else {
                lines.push(Line { section: section.clone(), text: text.to_string() });
            }
        }
        Transcript { lines, data }
    }

    /// What a section said in JSON; null if it said nothing, or nothing that is JSON.
    pub(crate) fn data(&self, section: &str) -> &Value {
        self.data.get(section).unwrap_or(&Value::Null)
    }

    /// What the program of `--init` ended with, as the kernel tells.
    pub(crate) fn init_status(&self) -> Option<i32> {
        let told = self.section("init").filter_map(|line| line.strip_prefix("init: ended with status "));
        told.last()?.parse().ok()
    }

    /// All lines but the ones that begin a section.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|line| line.text.as_str())
    }

    /// The lines of one section.
    pub(crate) fn section(&self, name: &str) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |line| line.section == name).map(|line| line.text.as_str())
    }

    /// The self-checks and what is checked after programs, in order. A line that says neither `ok` nor `FAILED` did not pass.
    pub(crate) fn checks(&self) -> Vec<Check<'_>> {
        let sections = CHECKS.into_iter().flat_map(|name| self.section(name));
        let rests = sections.filter_map(|line| line.strip_prefix("check "));
        rests
            .map(|rest| {
                let (name, outcome) = rest.split_once(": ").unwrap_or((rest, ""));
                Check { name, passed: outcome == "ok" || outcome.starts_with("ok (") }
            })
            .collect()
    }

    /// The verdict; none if the kernel gave none, or one that is not understood, or more than one.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let mut verdicts = self.section("verdict").filter_map(|line| line.strip_prefix("verdict: "));
        match (verdicts.next(), verdicts.next()) {
            (Some(only), None) => parse_verdict(only),
            _ => None,
        }
    }

    /// Instructions to the first self-check, where they were counted.
    pub(crate) fn instructions_to_first_check(&self) -> Option<u64> {
        let mut steps = self.data("times")["steps"].as_array()?.iter();
        steps.find(|step| step["step"] == "first self-check")?["instructions"].as_u64()
    }
}

/// `passed (N checks)`, `failed (K of N checks)` or `bad input (reason)`.
fn parse_verdict(text: &str) -> Option<Verdict> {
    let (word, detail) = text.trim_end().strip_suffix(')')?.split_once(" (")?;
    let checks = detail.strip_suffix(" checks").or(detail.strip_suffix(" check"));
    match word {
        "passed" => Some(Verdict::Passed(checks?.parse().ok()?)),
        "failed" => Some(Verdict::Failed),
        "bad input" => Some(Verdict::BadInput),
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
             check c: FAILED (why)\ncheck d: okay\ncheck e\nnothing\n# init\ncheck p: ok\n# after init\ncheck f: ok (2)\n",
        );
        let checks = transcript.checks();
        let seen: Vec<_> = checks.iter().map(|check| (check.name, check.passed)).collect();
        assert_eq!(
            seen,
            [("read-only data", true), ("b", true), ("c", false), ("d", false), ("e", false), ("f", true)]
        );
    }

    #[test]
    fn verdicts() {
        for (text, expected) in [
            ("verdict: passed (7 checks)", Some(Verdict::Passed(7))),
            ("verdict: passed (1 check)", Some(Verdict::Passed(1))),
            ("verdict: failed (2 of 7 checks)", Some(Verdict::Failed)),
            ("verdict: bad input (no (usable) memory)", Some(Verdict::BadInput)),
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
    fn what_is_said_in_json_is_no_line() {
        let text = "# times\r\nx\r\n{\"section\":\"times\",\"steps\":[{\"step\":\"MMU on\",\"instructions\":1},\
                    {\"step\":\"first self-check\",\"instructions\":7}]}\r\n# verdict\r\n{\"section\":\"verdict\",cut\r\n";
        let transcript = transcript(text);
        assert_eq!(transcript.lines().collect::<Vec<_>>(), ["x"]);
        assert_eq!(transcript.instructions_to_first_check(), Some(7));
        assert!(transcript.data("verdict").is_null() && transcript.data("chosen").is_null());
    }
}
