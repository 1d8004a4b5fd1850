//! `cargo xtask api`: what the published crates offer, held against what is on record.
//!
//! ```text
//! rustdoc's JSON ─▶ one line for each public item ─┐
//! engine/*/api.txt, the record ────────────────────┴▶ came, gone: an item that is gone breaks those who use it
//! ```

use std::fmt;

use cargo_metadata::{Package, semver::Version};
use clap::Parser;
use fs_err as fs;

use crate::{
    cargo,
    outcome::{Failure, Status},
    terminal,
};

/// The crates that others build on.
pub(crate) const PUBLISHED: [&str; 4] = ["vellum-vmsa", "vellum-pagetable", "vellum-linearmap", "vellum-userspace"];

/// The public items of the published crates, held against the record
///
/// The record is api.txt in the folder of each published crate: a line for each public item, as rustdoc lists them. An item
/// that a released version had (the changelog has a heading for each) goes with a breaking version alone. `cargo xtask
/// test` holds all four crates against their record, and packages them as they would be published.
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

/// One crate: the record and what is there.
pub(crate) struct Crate {
    name: String,
    record: Record,
    now: Record,
}

/// The public items of one version. As text: `# NAME VERSION`, then an item a line.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    version: Version,
    items: Vec<String>,
}

/// Entry of `cargo xtask api`.
pub(crate) fn main(options: &Options) -> Result<Status, Failure> {
    let mut status = Status::Passed;
    for package in cargo::metadata()?.packages.iter().filter(is_published) {
        let read = read(package)?;
        terminal::print(&read);
        if !options.write {
            status = if read.is_true() { status } else { Status::Failed };
        } else if read.needs_version(&released()?) {
            let line = format!(
                "{} {} is released: items that are gone need a version that says so",
                read.name, read.record.version
            );
            return Err(Failure::new(Status::Failed, line));
        } else {
            let path = record_path(package);
            fs::write(&path, read.now.text(&read.name))?;
        }
    }
    Ok(status)
}

/// What differs from the record, of every crate that is published: nothing, or lines that say so.
pub(crate) fn differences() -> Result<String, Failure> {
    let mut lines = String::new();
    for package in cargo::metadata()?.packages.iter().filter(is_published) {
        let read = read(package)?;
        if !read.is_true() {
            lines += &read.to_string();
        }
    }
    Ok(lines)
}

fn is_published(package: &&Package) -> bool {
    PUBLISHED.contains(&package.name.as_str())
}

fn record_path(package: &Package) -> String {
    package.manifest_path.with_file_name("api.txt").into_string()
}

/// Makes rustdoc list the items. Its JSON is for nightly compilers alone, unless a variable tells a stable one otherwise; the
/// compiler is pinned, so that the format stays what the reader knows.
fn read(package: &Package) -> Result<Crate, Failure> {
    let name = package.name.to_string();
    let folder = cargo::metadata()?.target_directory.join("api");
    let words = ["rustdoc", "--quiet", "--package", &name, "--lib", "--all-features", "--target-dir", folder.as_str()];
    let mut command = cargo::cargo(&[&words[..], &["--", "-Zunstable-options", "--output-format=json"]].concat());
    command.env("RUSTC_BOOTSTRAP", "1");
    cargo::build_here(&format!("the documentation of {name}"), command)?;
    let json = folder.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let builder = public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    let listed = builder.build().map_err(|error| Failure::new(Status::Failed, format!("{json}: {error}")))?;
    let now = Record { version: package.version.clone(), items: listed.items().map(ToString::to_string).collect() };
    let path = record_path(package);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let record = Record::read(&text).unwrap_or(Record { version: package.version.clone(), items: Vec::new() });
    Ok(Crate { name, record, now })
}

/// The headings of the changelog, which name the versions that are out.
fn released() -> Result<String, Failure> {
    let path = cargo::workspace().join("CHANGELOG.md");
    Ok(fs::read_to_string(path)?)
}

impl Record {
    fn read(text: &str) -> Option<Record> {
        let (head, items) = text.split_once('\n')?;
        let version = Version::parse(head.rsplit(' ').next()?).ok()?;
        Some(Record { version, items: items.lines().map(str::to_string).collect() })
    }

    fn text(&self, name: &str) -> String {
        format!("# {name} {}\n{}\n", self.version, self.items.join("\n"))
    }

    /// The items that `other` has not.
    fn beyond<'r>(&'r self, other: &'r Record) -> impl Iterator<Item = &'r String> {
        self.items.iter().filter(|item| !other.items.contains(item))
    }
}

impl Crate {
    fn is_true(&self) -> bool {
        self.record == self.now
    }

    /// Whether items are gone that a released version had, in a version that promises to have them.
    fn needs_version(&self, changelog: &str) -> bool {
        let (old, new) = (&self.record.version, &self.now.version);
        let is_released = changelog.lines().any(|line| line.starts_with(&format!("## {old}")));
        let is_compatible = old.major == new.major && (old.major > 0 || old.minor == new.minor);
        is_released && is_compatible && self.record.beyond(&self.now).next().is_some()
    }
}

impl fmt::Display for Crate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [gone, came] = [self.record.beyond(&self.now), self.now.beyond(&self.record)].map(Iterator::count);
        let (name, items) = (&self.name, self.now.items.len());
        writeln!(f, "{name} {}: {items} public items, {gone} gone and {came} new since the record", self.now.version)?;
        self.record.beyond(&self.now).try_for_each(|item| writeln!(f, "  gone  {item}"))?;
        self.now.beyond(&self.record).try_for_each(|item| writeln!(f, "  new   {item}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: &str, items: &[&str]) -> Record {
        let version = Version::parse(version).expect("a version");
        Record { version, items: items.iter().map(ToString::to_string).collect() }
    }

    fn read(old: (&str, &[&str]), new: (&str, &[&str])) -> Crate {
        Crate { name: "x".into(), record: record(old.0, old.1), now: record(new.0, new.1) }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let written = record("1.2.3", &["pub fn x::a()", "pub fn x::b()"]);
        assert_eq!(Record::read(&written.text("x")), Some(written));
        assert_eq!(Record::read(""), None);
    }

    #[test]
    fn what_came_and_what_is_gone_is_said() {
        let changed = read(("0.1.0", &["a", "b"]), ("0.1.0", &["b", "c"]));
        assert!(!changed.is_true());
        let expected = "x 0.1.0: 2 public items, 1 gone and 1 new since the record\n  gone  a\n  new   c\n";
        assert_eq!(changed.to_string(), expected);
        assert!(read(("0.1.0", &["a"]), ("0.1.0", &["a"])).is_true());
    }

    #[test]
    fn what_a_released_version_had_goes_with_a_breaking_version_alone() {
        let changelog = "# Changes\n\n## 0.1.0 (2027-01-01)\n\n## 1.4.0\n";
        for (old, new, has_lost, needs) in [
            ("0.1.0", "0.1.1", true, true),
            ("0.1.0", "0.1.1", false, false),
            ("0.1.0", "0.2.0", true, false),
            ("1.4.0", "1.5.0", true, true),
            ("1.4.0", "2.0.0", true, false),
            ("0.3.0", "0.3.1", true, false),
        ] {
            let now: &[&str] = if has_lost { &["b"] } else { &["a", "b"] };
            assert_eq!(read((old, &["a"]), (new, now)).needs_version(changelog), needs, "{old} to {new}");
        }
    }
}
