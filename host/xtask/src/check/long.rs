//! Checks that need more time than `cargo xtask test` has for them: `cargo xtask check all` runs
//! them and records their results.
//!
//! ```text
//!   checks/record.tsv    name │ result │ last line │ date │ commit │ digest of the files it is about
//!   cargo xtask test     fails if a row is missing, its result is not `passed`, or those files have changed since
//! ```

use fs_err as fs;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::cargo;
use crate::outcome::{Failure, Status};

/// Where results are recorded.
const RECORD: &str = "checks/record.tsv";
const HEAD: &str =
    "# made by `cargo xtask check all`: name, result, last line, date, commit, digest of the files it is about\n";

/// A long check.
#[derive(Debug)]
pub(crate) struct Long {
    pub(crate) name: &'static str,
    /// Arguments of cargo, with blanks between.
    call: &'static str,
    /// Files and folders whose change makes its result old.
    about: &'static [&'static str],
}

const fn long(name: &'static str, call: &'static str, about: &'static [&'static str]) -> Long {
    Long { name, call, about }
}

const VMSA: &str = "engine/vmsa/src";
const PAGETABLE: &str = "engine/pagetable/src";

/// All of them. Each reader is fed for a minute.
static LONG: [Long; 8] = [
    long(
        "ten million events",
        "run --quiet --profile checks --package check -- --events 10000000",
        &[VMSA, PAGETABLE, "machine/src", "machine/seed/src", "checks/src"],
    ),
    long(
        "bounds of the engine",
        "run --quiet --package xtask -- bench --must",
        &[VMSA, PAGETABLE, "engine/linearmap/src", "bench/src", "bench/results"],
    ),
    long(
        "hostile tables",
        "test --quiet --release --package vellum-pagetable --test all fuzz",
        &[VMSA, PAGETABLE, "engine/pagetable/tests"],
    ),
    long(
        "damaged device trees",
        "run --quiet --release --package kerncore --example fuzz -- 60",
        &["bare/kerncore/src", "bare/kerncore/examples"],
    ),
    long(
        "hostile sources",
        "test --quiet --release --package image --test fuzz",
        &["host/image/src", "host/image/tests"],
    ),
    long(
        "hostile texts",
        "test --quiet --release --package vellum --bin vellum fuzz_",
        &[
            "host/cli/src/fuzz.rs",
            "host/cli/src/diff",
            "host/cli/src/decode/oops.rs",
            "host/cli/src/decode/oops",
            "machine/src/trace",
        ],
    ),
    long(
        "hostile machines",
        "test --quiet --package xtask --bin xtask fuzz_",
        &["host/xtask/src/boot/description.rs", "bare/monitor/machines"],
    ),
    long(
        "hostile litmus tests",
        "test --quiet --package litmus --test readers fuzz_",
        &["checks/litmus/src", "checks/litmus/tests/readers.rs"],
    ),
];

impl Long {
    /// Runs it: its output, and whether it passed.
    pub(crate) fn run(&self, say: &mut dyn FnMut(&str)) -> (String, bool) {
        let call: Vec<&str> = self.call.split(' ').collect();
        cargo::output(&call, &[("VELLUM_FUZZ_SECONDS", "60".into())], say)
    }
}

/// Those that feed readers with what nobody made on purpose: `cargo xtask test --full` has them too.
pub(crate) fn fuzzers() -> impl Iterator<Item = &'static Long> {
    LONG.iter().filter(|long| long.name.starts_with("hostile") || long.name.starts_with("damaged"))
}

/// A row of the record.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    result: String,
    last: String,
    date: String,
    commit: String,
    digest: String,
}

/// Runs all long checks, or those that are named, and records each result as it comes.
pub(super) fn main(names: &[OsString]) -> Result<Status, Failure> {
    let unknown = names.iter().find(|name| !LONG.iter().any(|long| *long.name == **name));
    if let Some(name) = unknown {
        let known = LONG.each_ref().map(|long| format!("\"{}\"", long.name)).join(", ");
        return Err(Failure::bad_input(format!("no long check is named {name:?}; there are {known}")));
    }
    let mut status = Status::Passed;
    for long in LONG.iter().filter(|long| names.is_empty() || names.iter().any(|name| *long.name == **name)) {
        println!("{}: cargo {}", long.name, long.call);
        // Of the files as they are before, so that a change meanwhile makes the result old.
        let digest = digest(long)?;
        let (output, is_good) = long.run(&mut |line| println!("  {line}"));
        let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let row = Row {
            result: if is_good { "passed" } else { "failed" }.to_owned(),
            last: last.replace('\t', " "),
            date: read("date", &["-u", "+%F"], "")?,
            commit: read("git", &["rev-parse", "--short=12", "HEAD"], "")?,
            digest,
        };
        println!("{}: {}", long.name, row.result);
        if !is_good {
            status = Status::Failed;
        }
        let mut rows = record()?;
        rows.insert(long.name.to_owned(), row);
        let path = cargo::workspace().join(RECORD);
        fs::write(&path, write(&rows))?;
    }
    Ok(status)
}

/// What is wrong with the record, one line each.
pub(crate) fn problems() -> Result<Vec<String>, Failure> {
    let rows = record()?;
    let mut problems = Vec::new();
    for long in &LONG {
        problems.extend(problem(long, rows.get(long.name), &digest(long)?));
    }
    let is_known = |name: &&String| LONG.iter().any(|long| long.name == **name);
    let strangers = rows.keys().filter(|name| !is_known(name));
    problems.extend(strangers.map(|name| format!("{RECORD}: no long check is named \"{name}\"; remove the row")));
    Ok(problems)
}

/// What is wrong with the record of one check.
fn problem(long: &Long, row: Option<&Row>, digest: &str) -> Option<String> {
    let name = long.name;
    let what = match row {
        None => "has no result".to_owned(),
        Some(row) if row.result != "passed" => format!("failed on {} ({}): {}", row.date, row.commit, row.last),
        Some(row) if row.digest != digest => {
            format!("passed on {} ({}), before files in {} changed", row.date, row.commit, long.about.join(", "))
        }
        Some(_) => return None,
    };
    Some(format!("{RECORD}: \"{name}\" {what}; run: cargo xtask check all \"{name}\""))
}

/// The rows of the record by name; none if there is no record.
fn record() -> Result<BTreeMap<String, Row>, Failure> {
    let path = cargo::workspace().join(RECORD);
    let text = if path.exists() { fs::read_to_string(&path)? } else { String::new() };
    parse(&text).map_err(|line| Failure::bad_input(format!("{RECORD}:{line}: expected six columns")))
}

/// Reads a record. The error is the number of a line that is no row.
fn parse(text: &str) -> Result<BTreeMap<String, Row>, usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let row = |(at, line): (usize, &str)| {
        let columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let [name, result, last, date, commit, digest] = columns.try_into().map_err(|_| at + 1)?;
        Ok((name, Row { result, last, date, commit, digest }))
    };
    lines.map(row).collect()
}

fn write(rows: &BTreeMap<String, Row>) -> String {
    let line = |(name, row): (&String, &Row)| {
        [name, &row.result, &row.last, &row.date, &row.commit, &row.digest].map(String::as_str).join("\t") + "\n"
    };
    HEAD.to_owned() + &rows.iter().map(line).collect::<String>()
}

/// A digest of the names and contents of the files that a check is about, as they are in the working tree.
fn digest(long: &Long) -> Result<String, Failure> {
    let names = read("git", &[&["ls-files", "--"], long.about].concat(), "")?;
    // A file that is deleted and not yet committed has no content.
    let there: Vec<&str> = names.lines().filter(|name| cargo::workspace().join(name).is_file()).collect();
    let there = there.join("\n");
    let contents = read("git", &["hash-object", "--stdin-paths"], &there)?;
    read("git", &["hash-object", "--stdin"], &(there + &contents))
}

/// What a program prints, without white space around it.
fn read(program: &str, arguments: &[&str], input: &str) -> Result<String, Failure> {
    let failed = |what: String| Failure::host_lacks(format!("{program} {}: {what}", arguments.join(" ")));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cargo::workspace()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    // By a thread of its own: it answers before it has read all.
    let (pipe, input) = (child.stdin.take(), input.to_owned());
    let writer = std::thread::spawn(move || pipe.map(|mut pipe| pipe.write_all(input.as_bytes())));
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let written = writer.join();
    if !output.status.success() || !matches!(written, Ok(Some(Ok(())) | None)) {
        return Err(failed(format!("ended with {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(result: &str, digest: &str) -> Row {
        let [last, date, commit] = ["9 rows", "2026-11-28", "abc"].map(str::to_owned);
        Row { result: result.to_owned(), last, date, commit, digest: digest.to_owned() }
    }

    #[test]
    fn a_result_holds_until_its_files_change() {
        let told = |row: Option<Row>| problem(&LONG[0], row.as_ref(), "d1");
        assert_eq!(told(Some(row("passed", "d1"))), None);
        for (row, what) in [
            (None, "has no result"),
            (Some(row("failed", "d1")), "failed on 2026-11-28 (abc): 9 rows"),
            (Some(row("passed", "d2")), "before files in engine/vmsa/src"),
        ] {
            let problem = told(row).expect("a problem");
            assert!(problem.contains(what) && problem.contains("run: cargo xtask check all"), "{problem}");
        }
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let rows = BTreeMap::from([("a".to_owned(), row("passed", "d1")), ("b".to_owned(), row("failed", "d2"))]);
        assert_eq!(parse(&write(&rows)), Ok(rows));
        assert_eq!(parse("# head\n\na\tb\n"), Err(3));
    }

    #[test]
    fn every_check_is_about_files_that_exist() {
        for long in &LONG {
            for path in long.about {
                assert!(cargo::workspace().join(path).exists(), "{}: {path}", long.name);
            }
        }
    }

    #[test]
    fn a_digest_follows_the_files() {
        let [first, second] = [0, 3].map(|at| digest(&LONG[at]).expect("git"));
        assert_eq!((first.len(), second.len()), (40, 40));
        assert_ne!(first, second);
        assert_eq!(first, digest(&LONG[0]).expect("git"));
    }
}
