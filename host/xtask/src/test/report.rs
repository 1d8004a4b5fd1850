//! What a person sees of a test run: a line for each step as it ends, what failed and why, and the sum.

use std::{
    fmt::Write,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{
    outcome::{Outcome, Say},
    skips::Skips,
};
use crate::{
    outcome::Status,
    terminal::{self, GREEN, RED, YELLOW, painted},
};

/// Columns of a step's name.
const NAME_WIDTH: usize = 36;

/// Lines of a failed step that the end shows again.
const LAST: usize = 12;

/// The run so far.
pub(crate) struct Report {
    skips: Skips,
    is_coloured: bool,
    /// The steps that are running; on standard error, and only if that is a terminal.
    running: MultiProgress,
    sum: Mutex<Sum>,
}

/// All outcomes added up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Sum {
    passed: usize,
    failed: usize,
    skipped: usize,
    /// What skipped and failed, for the end.
    remarks: Vec<String>,
}

impl Report {
    pub(crate) fn new(skips: Skips) -> Report {
        Report { skips, is_coloured: terminal::wants_colour(), running: MultiProgress::new(), sum: Mutex::default() }
    }

    /// Runs a step, showing that it runs, and prints what came of it.
    pub(crate) fn run(&self, name: &str, work: impl FnOnce(Say<'_>) -> Outcome) {
        let bar = self.running.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg:.dim}") {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_string());
        bar.enable_steady_tick(Duration::from_millis(100));
        let start = Instant::now();
        let outcome = work(&mut |line| bar.set_message(line.trim().to_string()));
        let time = start.elapsed();
        bar.finish_and_clear();
        self.running.remove(&bar);
        let text = self.sum().add(name, &outcome, time, &self.skips, self.is_coloured);
        self.running.suspend(|| terminal::print(text));
    }

    /// Prints the remarks and the sum; the run is as good as its worst step.
    pub(crate) fn finish(&self) -> Status {
        let sum = self.sum();
        terminal::print(sum.end());
        if sum.failed == 0 { Status::Passed } else { Status::Failed }
    }

    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sum {
    /// Adds an outcome; returns what is printed of it.
    fn add(&mut self, name: &str, outcome: &Outcome, time: Duration, skips: &Skips, is_coloured: bool) -> String {
        self.passed += outcome.passed;
        self.failed += outcome.failed;
        let mut forbidden = 0;
        for (skipped, reason) in &outcome.skipped {
            let is_allowed = skips.allow(skipped);
            *(if is_allowed { &mut self.skipped } else { &mut forbidden }) += 1;
            let remark = if is_allowed { "skipped" } else { "failed, for its skip is not on the list" };
            self.remarks.push(format!("{remark}: {skipped}: {reason}"));
        }
        self.failed += forbidden;

        let (word, colour) = match outcome {
            _ if outcome.failed + forbidden > 0 => ("FAILED", RED),
            _ if outcome.passed == 0 => ("skipped", YELLOW),
            _ => ("ok", GREEN),
        };
        let painted = painted(word, colour, is_coloured);
        let gap = " ".repeat("skipped".len() - word.len());
        let mut text = format!("{name:NAME_WIDTH$} {painted}{gap} {:6.1} s  {}", time.as_secs_f64(), outcome.note);
        text.truncate(text.trim_end().len());
        text.push('\n');
        if outcome.failed > 0 {
            self.explain(name, outcome, &mut text);
        }
        text
    }

    /// Shows why a step failed, and how to see it again.
    fn explain(&mut self, name: &str, outcome: &Outcome, text: &mut String) {
        for line in outcome.output.lines() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "    {line}");
        }
        let again = || format!("cargo xtask test {}", terminal::quoted(name.as_ref()));
        let repeat = outcome.repeat.clone().unwrap_or_else(again);
        let _ = writeln!(text, "    repeat: {repeat}");
        self.remarks.push(format!("failed: {name}: {repeat}"));
        // Of a long run often the end alone is kept.
        let lines: Vec<&str> = outcome.output.lines().filter(|line| !line.trim().is_empty()).collect();
        self.remarks.extend(lines[lines.len().saturating_sub(LAST)..].iter().map(|line| format!("    {line}")));
    }

    fn end(&self) -> String {
        let mut text = String::from("\n");
        for remark in &self.remarks {
            let _ = writeln!(text, "{remark}");
        }
        let _ = writeln!(text, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_millis(1234);

    #[test]
    fn the_last_line_is_the_plain_sum() {
        let mut sum = Sum::default();
        sum.add("a", &Outcome { passed: 40, note: "40 tests".into(), ..Outcome::default() }, SECOND, &Skips::All, true);
        sum.add("b", &Outcome::failed("why"), SECOND, &Skips::All, true);
        sum.add("c", &Outcome::skipped("c", "no tool"), SECOND, &Skips::All, true);
        let end = sum.end();
        assert!(end.ends_with("\n40 passed, 1 failed, 1 skipped\n"), "{end}");
        assert!(
            end.contains("failed: b: cargo xtask test b\n    why\n") && end.contains("skipped: c: no tool\n"),
            "{end}"
        );
    }

    #[test]
    fn a_step_has_one_line_unless_it_fails() {
        let mut sum = Sum::default();
        let passed = sum.add("fmt", &Outcome::passed(""), SECOND, &Skips::All, false);
        assert_eq!(passed, format!("{:36} ok         1.2 s\n", "fmt"));
        let outcome = Outcome { repeat: Some("cargo xtask run".into()), ..Outcome::failed("why\nso") };
        let failed = sum.add("boot", &outcome, SECOND, &Skips::All, false);
        assert_eq!(failed, format!("{:36} FAILED     1.2 s\n    why\n    so\n    repeat: cargo xtask run\n", "boot"));
    }

    #[test]
    fn in_ci_a_skip_must_be_listed() {
        let mut sum = Sum::default();
        let skips = Skips::Listed(vec!["known".into()]);
        sum.add("known", &Outcome::skipped("known", "no tool"), SECOND, &skips, false);
        let line = sum.add("new", &Outcome::skipped("new", "no tool"), SECOND, &skips, false);
        assert!(line.contains(" FAILED "), "{line}");
        assert!(sum.end().contains("failed, for its skip is not on the list: new: no tool\n"));
        assert!(sum.end().ends_with("\n0 passed, 1 failed, 1 skipped\n"));
    }
}
