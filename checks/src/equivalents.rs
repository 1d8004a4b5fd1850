//! Mutants of platform calls that no program can tell from the engine, each with its reason. The list is exact both ways: a
//! mutant that lives must be on it, and a mutant that is on it must live.

use std::fs;
use std::path::Path;

use crate::mutation::{Change, Mutation};

/// A row of the list: the mutants of one call.
struct Equivalent {
    /// End of the file's path.
    file: &'static str,
    /// The line of the call, without indentation.
    line: &'static str,
    /// The line before it, which tells it from lines alike.
    before: &'static str,
    change: Change,
    reason: &'static str,
}

const LIST: &[Equivalent] = &[Equivalent {
    file: "changes/fold.rs",
    line: "self.make(visit.slot, marked);",
    before: "self.forget_now(visit, Depth::AllLevels);",
    change: Change::Swap,
    reason: "The block without nT is stored behind the DSB that precedes the last TLBI. TLBs hold no block with nT, so \
             that TLBI has nothing to remove; the DSB behind it completes the store.",
}];

/// Why no program can tell `mutation`, if the list says so.
pub fn reason(mutation: &Mutation) -> Option<&'static str> {
    LIST.iter().find(|row| row.is_about(mutation)).map(|row| row.reason)
}

/// The rows that are about none of `mutants`: the sources have changed.
pub fn stale(mutants: &[Mutation]) -> Vec<String> {
    let is_stale = |row: &&Equivalent| !mutants.iter().any(|mutation| row.is_about(mutation));
    LIST.iter().filter(is_stale).map(|row| format!("{}: `{}` {}", row.file, row.line, row.change)).collect()
}

impl Equivalent {
    fn is_about(&self, mutation: &Mutation) -> bool {
        let Mutation { site, change, .. } = mutation;
        *change == self.change && site.file().ends_with(self.file) && {
            let text = fs::read_to_string(root().join(site.file())).unwrap_or_default();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let at = site.line() as usize - 1;
            at > 0 && lines.get(at - 1..=at) == Some(&[self.before, self.line])
        }
    }
}

/// The workspace, to which paths of call sites are relative.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
