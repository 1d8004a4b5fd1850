//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! ```text
//! cargo metadata → manifest.rs    arrows, versions, lints        \
//!                                                                  findings: path:line: what, what was expected
//! *.rs → source.rs → rules.rs     sizes, unsafe, assembly, ...    |
//!                  → circles.rs   files that use each other      |
//! *.md, *.txt, …   → merges.rs    what a merge left behind        |
//! all              → figures.rs   what may only fall              /
//! ```

mod circles;
mod figures;
mod finding;
mod house;
#[cfg(test)]
mod lock_order;
mod manifest;
mod merges;
mod methods;
mod prose;
mod rooms;
mod rules;
mod source;

use std::{
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::Package;

use crate::{
    cargo,
    outcome::{Failure, Status},
    terminal,
};
use figures::Figures;
pub(crate) use finding::Finding;
use manifest::Manifest;
use merges::from_root;
use source::Source;

/// What was read, and what was found.
pub(crate) struct Report {
    pub(crate) crates: usize,
    pub(crate) files: usize,
    /// Circles that are not findings, each with its shortest way round.
    ways: Vec<String>,
    figures: Figures,
    record: Figures,
    /// How often figures were raised with a reason; none where git does not know.
    raised: Option<usize>,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    /// What was held, in a line.
    pub(crate) fn summary(&self) -> String {
        let raised =
            self.raised.map_or("no git that knows when figures rose".into(), |it| format!("{it} figures raised"));
        format!("{} files of {} crates, {raised}", self.files, self.crates)
    }
}

/// Entry of `cargo xtask tidy`.
pub(crate) fn main() -> Result<Status, Failure> {
    let report = check()?;
    for finding in &report.findings {
        terminal::print(format_args!("{finding}\n"));
    }
    report.ways.iter().for_each(|way| terminal::print(format_args!("{way}\n")));
    terminal::print(report.figures.aligned());
    figures::lower(&cargo::workspace(), &report.record, &report.figures)?;
    terminal::print(format_args!("{} findings in {}\n", report.findings.len(), report.summary()));
    Ok(if report.findings.is_empty() { Status::Passed } else { Status::Failed })
}

/// Reads the whole workspace and holds it against the rules.
pub(crate) fn check() -> Result<Report, Failure> {
    let root = cargo::workspace();
    let metadata = cargo::metadata()?;
    let packages = &metadata.packages;
    let members: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();

    let mut findings = manifest::root(Manifest { path: "Cargo.toml", text: &read(&root.join("Cargo.toml"))? });
    for package in packages {
        let path = package.manifest_path.as_std_path();
        let (name, text) = (from_root(&root, path), read(path)?);
        let manifest = Manifest { path: &name, text: &text };
        findings.extend(manifest::arrows(manifest, package, house::ROOMS, &members));
        findings.extend(manifest::member(manifest));
    }
    let folders: Vec<(&str, PathBuf)> = packages.iter().filter_map(folder).collect();
    let others: Vec<&Path> = folders.iter().map(|(_, folder)| folder.as_path()).collect();
    let (mut sources, mut figures, mut texts) = (Vec::new(), Figures::default(), Vec::new());
    for (crate_name, folder) in &folders {
        let mut files = Vec::new();
        source_files(folder, &others, &mut files)?;
        for file in files {
            let (name, text) = (from_root(&root, &file), read(&file)?);
            ["all", crate_name].iter().for_each(|room| figures.add(room, "lines", text.lines().count()));
            texts.push((name.clone(), text.clone()));
            if name.ends_with(".s") {
                continue;
            }
            match Source::new(&name, &text) {
                Ok(source) => sources.push(source),
                Err((line, error)) => {
                    findings.push(Finding { path: name, line, text: format!("{error}, expected Rust") });
                }
            }
        }
    }
    findings.extend(sources.iter().flat_map(rules::check));
    // Of a file that is not there, or stores nothing, the rule would say nothing.
    let stores = |file: &str| sources.iter().any(|it| it.path == file && !rules::store_calls(it).is_empty());
    for file in house::DESCRIPTOR_STORES.1.into_iter().filter(|file| !stores(file)) {
        let text = "no store of a descriptor, expected one of the files that have them".to_string();
        findings.push(Finding { path: file.to_string(), line: 1, text });
    }
    let mut ways = Vec::new();
    for (name, folder) in &folders {
        findings.extend(rooms::circles(name, &from_root(&root, folder), &sources, &mut figures, &mut ways));
    }
    findings.extend(rooms::unnamed_tests(&sources));
    findings.extend(rooms::missing(&root, &members));
    merges::texts(&root, &root, &mut texts)?;
    findings.extend(texts.iter().flat_map(|(name, text)| merges::marks(name, text)));
    let rooms: Vec<(&str, String)> = folders.iter().map(|(name, folder)| (*name, from_root(&root, folder))).collect();
    prose::add(&texts, &rooms, &mut figures);
    let (record, over) = figures::over(&root, &figures);
    findings.extend(over);
    let raised = figures::raised(&root).map(|(raised, found)| (findings.extend(found), raised).1);
    findings.sort();
    Ok(Report { crates: packages.len(), files: sources.len(), ways, figures, record, raised, findings })
}

/// The name of a crate, and its folder.
fn folder(package: &Package) -> Option<(&str, PathBuf)> {
    Some((package.name.as_str(), package.manifest_path.parent()?.into()))
}

/// Collects the files of Rust and assembly below a folder, but for those of `others`, folders of other crates.
fn source_files(folder: &Path, others: &[&Path], files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|error| Failure::file(folder, &error))? {
        let path = entry.map_err(|error| Failure::file(folder, &error))?.path();
        if path.is_dir() && !path.ends_with("target") && !others.contains(&path.as_path()) {
            source_files(&path, others, files)?;
        } else if path.extension().is_some_and(|it| it == "rs" || it == "s") {
            files.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::file(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_sources_and_no_others() {
        let folder = std::env::temp_dir().join(format!("vellum-tidy-{}", std::process::id()));
        for file in ["src/lib.rs", "src/deep/a.s", "target/debug/b.rs", "Cargo.toml", "in/src/lib.rs"] {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "").expect("a file");
        }
        let mut files = Vec::new();
        source_files(&folder, &[&folder, &folder.join("in")], &mut files).expect("read");
        let mut names: Vec<String> = files.iter().map(|file| from_root(&folder, file)).collect();
        names.sort();
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(names, ["src/deep/a.s", "src/lib.rs"]);
    }
}
