//! `cargo xtask api`: what the published crates offer, held against what is on record.
//!
//! ```text
//! rustdoc's JSON ─▶ one line for each public item ─┐
//! engine/*/api.txt, the record ────────────────────┴▶ came, gone: an item that is gone breaks those who use it
//! ```

use cargo_metadata::{Package, semver::Version};
use clap::Parser;
use fs_err as fs;
use similar::{ChangeTag, TextDiff};

use crate::{
    cargo,
    outcome::{Failure, Status},
    terminal,
};

/// The crates that others build on.
pub(crate) const PUBLISHED: [&str; 4] = ["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "vellum-userspace"];

/// The public items of the published crates, held against the record
///
/// The record is api.txt in the folder of each published crate: a line for each public item, as
/// rustdoc lists them. An item that a released version had (the changelog has a heading for each)
/// goes with a breaking version alone. `cargo xtask test` holds all four crates against their
/// record, and packages them as they would be published.
#[derive(Parser)]
#[command(
    no_binary_name = true,
    after_help = "Exit status: 0 all is as recorded, 1 something differs or does not build, 2 an option is wrong."
)]
pub(crate) struct Options {
    /// Put the present items on record
    #[arg(long)]
    write: bool,
}

/// Entry of `cargo xtask api`.
pub(crate) fn main(options: &Options) -> Result<Status, Failure> {
    let mut status = Status::Passed;
    for package in cargo::metadata()?.packages.iter().filter(is_published) {
        let (record, now) = read(package)?;
        terminal::print(differences(&record, &now));
        if !options.write {
            status = if record == now { status } else { Status::Failed };
        } else if needs_version(&record, &now, &fs::read_to_string(cargo::workspace().join("CHANGELOG.md"))?) {
            let line = format!("{}: a released version lost items, which need a version that says so", package.name);
            return Err(Failure::failed(line));
        } else {
            fs::write(record_path(package), now)?;
        }
    }
    Ok(status)
}

/// What differs from the record, of every crate that is published: nothing, or lines that say so.
pub(crate) fn all_differences() -> Result<String, Failure> {
    let mut lines = String::new();
    for package in cargo::metadata()?.packages.iter().filter(is_published) {
        let (record, now) = read(package)?;
        lines += &if record == now { String::new() } else { differences(&record, &now) };
    }
    Ok(lines)
}

fn is_published(package: &&Package) -> bool {
    PUBLISHED.contains(&package.name.as_str())
}

fn record_path(package: &Package) -> String {
    package.manifest_path.with_file_name("api.txt").into_string()
}

/// The record of a crate, and the present text of it: `# NAME VERSION`, then an item a line, as
/// rustdoc lists them. Its JSON is for nightly compilers alone, unless a variable tells a stable
/// one otherwise; the compiler is pinned, so that the format stays what the reader knows.
fn read(package: &Package) -> Result<(String, String), Failure> {
    let (name, folder) = (&package.name, cargo::metadata()?.target_directory.join("api"));
    let words = ["rustdoc", "--quiet", "--package", name, "--lib", "--all-features", "--target-dir", folder.as_str()];
    let mut command = cargo::cargo(&[&words[..], &["--", "-Zunstable-options", "--output-format=json"]].concat());
    command.env("RUSTC_BOOTSTRAP", "1");
    cargo::build_here(&format!("the documentation of {name}"), command)?;
    let json = folder.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let builder = public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let listed = builder.build().map_err(|error| Failure::failed(format!("{json}: {error}")))?;
    let items: String = listed.items().map(|item| format!("{item}\n")).collect();
    let record = fs::read_to_string(record_path(package)).unwrap_or_default();
    Ok((record, format!("# {name} {}\n{items}", package.version)))
}

/// A line for each item, and for each version, that is gone or new.
fn differences(record: &str, now: &str) -> String {
    let diff = TextDiff::from_lines(record, now);
    let lines = |wanted, word| {
        let changes = diff.iter_all_changes().filter(move |change| change.tag() == wanted);
        changes.map(|change| format!("  {word}  {}", change.value())).collect::<Vec<_>>()
    };
    let (gone, new) = (lines(ChangeTag::Delete, "gone"), lines(ChangeTag::Insert, "new "));
    let (head, items) = now.split_once('\n').unwrap_or_default();
    let items = items.lines().count();
    let head = format!("{}: {items} public items, {} lines gone and {} new", &head[2..], gone.len(), new.len());
    format!("{head} since the record\n{}{}", gone.concat(), new.concat())
}

/// Whether items are gone that a released version had, in a version that promises to have them.
fn needs_version(record: &str, now: &str, changelog: &str) -> bool {
    let version = |text: &str| Version::parse(text.lines().next()?.rsplit(' ').next()?).ok();
    let (Some(old), Some(new)) = (version(record), version(now)) else { return false };
    let is_released = changelog.lines().any(|line| line.starts_with(&format!("## {old}")));
    let is_compatible = old.major == new.major && (old.major > 0 || old.minor == new.minor);
    is_released && is_compatible && record.lines().skip(1).any(|item| !now.lines().any(|other| item == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_gone_or_new_are_shown() {
        let shown = differences("# x 0.1.0\na\nb\n", "# x 0.1.0\nb\nc\n");
        assert_eq!(shown, "x 0.1.0: 2 public items, 1 lines gone and 1 new since the record\n  gone  a\n  new   c\n");
    }

    #[test]
    fn what_a_released_version_had_goes_with_a_breaking_version_alone() {
        let changelog = "# Changes\n\n## 0.1.0 (2027-01-01)\n\n## 1.4.0\n";
        for (old, new, items, needs) in [
            ("0.1.0", "0.1.1", "b\n", true),
            ("0.1.0", "0.1.1", "a\nb\n", false),
            ("0.1.0", "0.2.0", "b\n", false),
            ("1.4.0", "1.5.0", "b\n", true),
            ("1.4.0", "2.0.0", "b\n", false),
            ("0.3.0", "0.3.1", "b\n", false),
        ] {
            let (record, now) = (format!("# x {old}\na\n"), format!("# x {new}\n{items}"));
            assert_eq!(needs_version(&record, &now, changelog), needs, "{old} to {new}");
        }
    }
}
