//! The outcome of a step.

use crate::outcome::{Failure, Status};

/// Takes a line that says what a step is doing.
pub(super) type Say<'s> = &'s mut dyn FnMut(&str);

/// What came of a step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Names and reasons.
    pub(super) skipped: Vec<(String, String)>,
    /// A few words for the step's line.
    pub(super) note: String,
    /// Shown if the step fails.
    pub(super) output: String,
    /// The command that repeats a failure, where it is not `cargo xtask test NAME`.
    pub(super) repeat: Option<String>,
    /// What README's table says of a boot.
    pub(super) cell: Option<String>,
}

impl Outcome {
    pub(super) fn passed(note: impl Into<String>) -> Outcome {
        Outcome { passed: 1, note: note.into(), ..Outcome::default() }
    }

    pub(super) fn failed(output: impl Into<String>) -> Outcome {
        Outcome { failed: 1, output: output.into(), ..Outcome::default() }
    }

    /// What cargo printed, and whether it succeeded.
    pub(super) fn of_call((output, has_succeeded): (String, bool)) -> Outcome {
        if has_succeeded { Outcome::passed("") } else { Outcome::failed(output) }
    }

    pub(super) fn of_problems(lines: &[String]) -> Outcome {
        if lines.is_empty() { Outcome::passed("") } else { Outcome::failed(lines.join("\n")) }
    }

    /// Rows that passed and failed, with the text of those that failed.
    pub(super) fn of_rows(rows: impl IntoIterator<Item = Result<(), String>>) -> Outcome {
        rows.into_iter().fold(Outcome::default(), |mut outcome, row| {
            match row {
                Ok(()) => outcome.passed += 1,
                Err(text) => (outcome.failed, outcome.output) = (outcome.failed + 1, outcome.output + &text),
            }
            outcome
        })
    }

    pub(super) fn skipped(name: &str, reason: impl Into<String>) -> Outcome {
        Outcome { skipped: vec![(name.to_string(), reason.into())], ..Outcome::default() }
    }

    /// Two parts of one step.
    pub(super) fn and(mut self, other: Outcome) -> Outcome {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
        self.note = [self.note, other.note].join(", ");
        self.output.push_str(&other.output);
        self
    }

    /// What a command that stopped comes to: a test that this host cannot run is skipped.
    pub(super) fn stopped(name: &str, failure: Failure) -> Outcome {
        match failure.status {
            Status::HostLacks => Outcome::skipped(name, failure.line),
            _ => Outcome::failed(failure.line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_lacks_something_skips() {
        let lacking = Outcome::stopped("a", Failure::host_lacks("install it"));
        assert_eq!((lacking.failed, lacking.skipped), (0, vec![("a".to_string(), "install it".to_string())]));
        assert_eq!(Outcome::stopped("a", Failure::failed("broken")).failed, 1);
    }
}
