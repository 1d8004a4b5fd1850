//! Texts that no compiler reads (documents, lists, records), and what a merge left behind in them.

use std::{fs, path::Path};

use super::finding::Finding;
use crate::outcome::Failure;

/// Names of files that are text, by how they end.
const TEXTS: [&str; 8] = [".md", ".toml", ".txt", ".tsv", ".sh", ".yml", ".json", "/run"];
/// Where no file is committed. What else begins with a dot is looked through.
const OUTSIDE: [&str; 3] = [".git", ".fetched", "target"];
/// How the lines begin by which `git` parts two sides.
const MARKS: [&str; 2] = ["<<<<<<< ", ">>>>>>> "];

/// Reads the texts of a folder: their names from the workspace's root, and what they say.
pub(super) fn texts(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|error| Failure::file(folder, &error))? {
        let path = entry.map_err(|error| Failure::file(folder, &error))?.path();
        let name = from_root(root, &path);
        if path.is_symlink() || OUTSIDE.iter().any(|outside| path.ends_with(outside)) {
            continue;
        }
        if path.is_dir() {
            texts(root, &path, found)?;
        } else if TEXTS.iter().any(|end| name.ends_with(end)) {
            let bytes = fs::read(&path).map_err(|error| Failure::file(&path, &error))?;
            found.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(())
}

/// A path as findings have it.
pub(super) fn from_root(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// The marks of a merge in a text.
pub(super) fn marks(name: &str, text: &str) -> Vec<Finding> {
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
