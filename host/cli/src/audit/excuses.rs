//! Findings that are known: a file with one line for each, `RULE FUNCTION REASON…`.

use std::fs;
use std::path::Path;

use crate::select::Failure;

/// What is excused.
#[derive(Default, Debug)]
pub(super) struct Excuses(Vec<(String, String)>);

impl Excuses {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::file(format_args!("--excuses {}", path.display()), &error))?;
        Self::parse(&text).map_err(|what| Failure(format!("--excuses {}:{what}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let excuse = |(number, line): (usize, &str)| {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(rule), Some(function), Some(_)) => Ok((rule.to_owned(), function.to_owned())),
                _ => Err(format!("{number}: `{line}`, expected a rule, a function and the reason")),
            }
        };
        lines.map(excuse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a finding of `rule` in one of these functions is excused.
    pub(super) fn has(&self, rule: &str, functions: &[&str]) -> bool {
        self.0.iter().any(|(known, function)| known == rule && functions.contains(&function.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excuse_needs_a_reason() {
        let excuses = Excuses::parse("# known\n\nV1 set_pte  both map the same page\n").expect("excuses");
        assert!(excuses.has("V1", &["other", "set_pte"]));
        assert!(!excuses.has("V2", &["set_pte"]) && !excuses.has("V1", &["other"]));
        assert!(Excuses::parse("V1 set_pte\n").is_err_and(|what| what.starts_with("1:")));
    }
}
