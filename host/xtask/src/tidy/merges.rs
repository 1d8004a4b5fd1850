//! What a merge left behind where no compiler reads: documents, lists, records.

use std::{fs, path::Path};

use super::{Finding, from_root};
use crate::outcome::Failure;

/// Names of files that are text, by how they end.
const TEXTS: [&str; 8] = [".md", ".toml", ".txt", ".tsv", ".sh", ".yml", ".json", "/run"];
/// Where no file is committed. What else begins with a dot is looked through.
const OUTSIDE: [&str; 3] = [".git", ".fetched", "target"];
/// How the lines begin by which `git` parts two sides.
const MARKS: [&str; 2] = ["<<<<<<< ", ">>>>>>> "];

/// The marks of a merge in the texts of a folder.
pub(super) fn left(root: &Path, folder: &Path, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|error| Failure::file(folder, &error))? {
        let path = entry.map_err(|error| Failure::file(folder, &error))?.path();
        let name = from_root(root, &path);
        if path.is_symlink() || OUTSIDE.iter().any(|outside| path.ends_with(outside)) {
            continue;
        }
        if path.is_dir() {
            left(root, &path, findings)?;
        } else if TEXTS.iter().any(|end| name.ends_with(end)) {
            let bytes = fs::read(&path).map_err(|error| Failure::file(&path, &error))?;
            findings.extend(marks(&name, &String::from_utf8_lossy(&bytes)));
        }
    }
    Ok(())
}

fn marks(name: &str, text: &str) -> Vec<Finding> {
    let is_mark = |line: &str| MARKS.iter().any(|mark| line.starts_with(mark));
    let lines = text.lines().enumerate().filter(|(_, line)| is_mark(line));
    let text = "the mark of a merge, expected the text of one side or of both";
    lines.map(|(at, _)| Finding { path: name.to_string(), line: at + 1, text: text.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_that_was_not_finished_is_found() {
        let text = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> 0123abc\n# Heading\n=======\n";
        let lines: Vec<usize> = marks("A.md", text).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 6]);
    }
}
