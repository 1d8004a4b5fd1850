//! What Rust's test harness prints, counted.

use super::outcome::Outcome;

/// The outcome of `cargo test`, from what it printed, and whether it succeeded.
pub(crate) fn counted((output, has_succeeded): (String, bool)) -> Outcome {
    let counted = count(&output, has_succeeded);
    Outcome { output, ..counted }
}

/// Counts the tests in the output of `cargo test`, documentation tests too. Whether all went well is cargo's to say:
/// a test binary that does not build, or that dies, prints no result.
fn count(output: &str, has_succeeded: bool) -> Outcome {
    let mut outcome = Outcome::default();
    for line in output.lines() {
        if let Some(result) = line.strip_prefix("test result: ") {
            outcome.passed += number_before(result, " passed");
            outcome.failed += number_before(result, " failed");
        } else if let Some((name, reason)) = ignored(line) {
            outcome.skipped.push((name.to_string(), reason.to_string()));
        }
    }
    outcome.note = format!("{} tests", outcome.passed + outcome.failed);
    if !has_succeeded && outcome.failed == 0 {
        outcome.failed = 1;
    }
    if outcome.passed + outcome.failed == 0 {
        outcome.failed = 1;
        outcome.note = "no test ran".into();
    }
    outcome
}

/// The number that stands before `unit`.
fn number_before(text: &str, unit: &str) -> usize {
    let before = text.split_once(unit).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Name and reason of a test that was ignored: `test NAME ... ignored, REASON`.
fn ignored(line: &str) -> Option<(&str, &str)> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let reason = outcome.strip_prefix("ignored")?.trim_start_matches(", ");
    Some((name, if reason.is_empty() { "ignored in the source" } else { reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "     Running unittests src/lib.rs (target/debug/deps/a)\n\nrunning 3 tests\n\
                          test a::works ... ok\ntest a::slow ... ignored, needs hardware\ntest b ... ok\n\n\
                          test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\
                          \n   Doc-tests a\n\nrunning 2 tests\ntest src/lib.rs - f (line 3) ... ignored\n\
                          test src/lib.rs - g (line 9) ... FAILED\n\n\
                          test result: FAILED. 0 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n";

    #[test]
    fn every_binary_counts() {
        let outcome = count(OUTPUT, false);
        assert_eq!((outcome.passed, outcome.failed), (2, 1));
        let skipped: Vec<_> = outcome.skipped.iter().map(|(name, reason)| (name.as_str(), reason.as_str())).collect();
        assert_eq!(skipped, [("a::slow", "needs hardware"), ("src/lib.rs - f (line 3)", "ignored in the source")]);
        assert_eq!(outcome.note, "3 tests");
    }

    #[test]
    fn a_build_that_fails_is_one_failure() {
        let outcome = count("error: could not compile `a`\n", false);
        assert_eq!((outcome.passed, outcome.failed), (0, 1));
    }

    #[test]
    fn nothing_is_no_success() {
        let outcome = count("test result: ok. 0 passed; 0 failed; 0 ignored\n", true);
        assert_eq!((outcome.passed, outcome.failed, outcome.note.as_str()), (0, 1, "no test ran"));
    }
}
