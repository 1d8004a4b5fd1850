//! What became of the tests, printed as Rust's harness prints it.

use std::process::ExitCode;

/// Counts of tests, and what failed.
#[derive(Default)]
pub(crate) struct Report {
    passed: usize,
    ignored: usize,
    failures: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn add(&mut self, name: &str, result: Result<(), String>) {
        println!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        match result {
            Ok(()) => self.passed += 1,
            Err(why) => self.failures.push((name.to_owned(), why)),
        }
    }

    pub(crate) fn ignore(&mut self, name: &str, why: &str) {
        println!("test {name} ... ignored, {why}");
        self.ignored += 1;
    }

    pub(crate) fn finish(self) -> ExitCode {
        for (name, why) in &self.failures {
            println!("\n---- {name} ----\n{why}");
        }
        let (word, failed) = if self.failures.is_empty() { ("ok", 0) } else { ("FAILED", self.failures.len()) };
        println!("\ntest result: {word}. {} passed; {failed} failed; {} ignored", self.passed, self.ignored);
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
