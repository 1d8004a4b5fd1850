//! Building the copy. What does not compile is no mutant: its site is left alone, and the build tried again.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use seed::Digest;
use serde_json::Value;
use terminal::counted;

use crate::copy::{Copy, Mutated, WRAPPER};
use crate::sites::Site;

/// Builds until which all that does not compile is found; more are a mistake of the generator's.
const ROUNDS: usize = 40;
/// The crates whose tests hunt, by the folder that mutants are of, the first that fits: for those of page tables all that stands on
/// them, but for address spaces, which are hunted by their own tests alone.
const NEAR: [(&str, &[&str]); 4] = [
    ("engine/userspace/", &["vellum-userspace"]),
    ("engine/", &["vellum-vmsa", "vellum-pagetable", "vellum-linearmap"]),
    ("machine/", &["machine"]),
    ("bare/", &["kerncore"]),
];
/// Those above, that use them.
const FAR: [&str; 3] = ["checks", "zoo", "litmus"];
/// How our crates are optimized: enough for millions of events, and no more, as most are built for many tests.
const OURS: [(&str, u8); 11] = [
    ("mutant", 2),
    ("vellum-vmsa", 1),
    ("vellum-pagetable", 1),
    ("vellum-linearmap", 1),
    ("vellum-userspace", 1),
    ("machine", 2),
    ("kerncore", 1),
    ("checks", 1),
    ("a64", 1),
    ("zoo", 1),
    ("litmus", 1),
];

/// A test program, and where it runs.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
}

/// Writes the mutated sources without what does not compile; what is left. What was found is kept for the next time, where
/// the sources may be the same.
pub(crate) fn settle(copy: &Copy, texts: &[(String, String)], sites: &[Site]) -> Result<Vec<bool>, String> {
    let path = copy.root.join("rejected.txt");
    let print = fingerprint(texts, sites);
    let known = fs::read_to_string(&path).unwrap_or_default();
    let known = known.strip_prefix(&print).unwrap_or_default().lines().filter_map(|line| line.parse().ok());
    let mut rejected: BTreeSet<usize> = known.filter(|site| *site < sites.len()).collect();
    for round in 1..=ROUNDS {
        let active: Vec<bool> = (0..sites.len()).map(|site| !rejected.contains(&site)).collect();
        let files = copy.mutate(texts, sites, &active).map_err(|error| format!("{}: {error}", copy.root.display()))?;
        let crates = NEAR.iter().flat_map(|(_, crates)| *crates).flat_map(|name| ["-p", name]);
        let call: Vec<&str> = ["check", "--keep-going", "--all-features"].into_iter().chain(crates).collect();
        let (messages, is_built) = cargo(copy, &call)?;
        if is_built {
            return Ok(active);
        }
        let blamed: BTreeSet<usize> = messages.iter().flat_map(|message| blamed(message, &files, sites)).collect();
        if blamed.is_empty() {
            return Err(format!("the copy does not compile, and no site is to blame:\n{}", first_error(&messages)));
        }
        eprintln!(
            "mutants of logic: build {round}: {} sites are left out, with which it does not compile",
            blamed.len()
        );
        rejected.extend(blamed);
        let list: String = rejected.iter().map(|site| format!("{site}\n")).collect();
        let _ = fs::write(&path, print.clone() + &list);
    }
    Err(format!("the copy does not compile after {ROUNDS} builds"))
}

/// A line that is another one where other texts, or other sites of them, are mutated.
fn fingerprint(texts: &[(String, String)], sites: &[Site]) -> String {
    let mut hasher = Digest::new();
    texts.hash(&mut hasher);
    for edit in sites.iter().flat_map(|site| &site.edits) {
        (edit.at, &edit.text).hash(&mut hasher);
    }
    format!("{:x}\n", hasher.finish())
}

fn first_error(messages: &[Value]) -> &str {
    let errors = messages.iter().filter(|it| it["message"]["level"] == "error");
    errors.filter_map(|it| it["message"]["rendered"].as_str()).next().unwrap_or("")
}

/// The sites at which an error points: the innermost at the first of its places that is in one. Where a value is used that
/// was moved, or may have none, or is missing, the jumps before that may be left out; or the next behind, by which a loop ends.
fn blamed(message: &Value, files: &[Mutated], sites: &[Site]) -> Vec<usize> {
    let message = &message["message"];
    if message["level"] != "error" {
        return Vec::new();
    }
    let mut spans: Vec<&Value> = message["spans"].as_array().map(|it| it.iter().collect()).unwrap_or_default();
    let is_of_flow = ["E0308", "E0381", "E0382", "E0502"].iter().any(|code| message["code"]["code"] == *code);
    if is_of_flow {
        let jumps = jumps_between(&spans, files, sites);
        if !jumps.is_empty() {
            return jumps;
        }
    }
    spans.sort_by_key(|it| it["is_primary"] != true);
    for mut span in spans.iter().copied() {
        loop {
            let found = place(span).and_then(|(path, at)| site_at(path, &at, files, sites));
            if let Some(site) = found {
                return vec![site];
            }
            match &span["expansion"]["span"] {
                Value::Null => break,
                outer => span = outer,
            }
        }
    }
    if is_of_flow { jump_behind(&spans, files, sites).into_iter().collect() } else { Vec::new() }
}

/// The first jump behind all of these places.
fn jump_behind(spans: &[&Value], files: &[Mutated], sites: &[Site]) -> Option<usize> {
    let places: Vec<(&str, Range<usize>)> = spans.iter().filter_map(|span| place(span)).collect();
    let (path, last) = (places.first()?.0, places.iter().map(|it| it.1.end).max()?);
    let file = files.iter().find(|it| Path::new(path).ends_with(&it.path))?;
    let behind = file.ranges.iter().filter(|(site, range)| last <= range.start && sites[*site].is_jump());
    behind.min_by_key(|(_, range)| range.start).map(|(site, _)| *site)
}

fn jumps_between(spans: &[&Value], files: &[Mutated], sites: &[Site]) -> Vec<usize> {
    let places: Vec<(&str, Range<usize>)> = spans.iter().filter_map(|span| place(span)).collect();
    let Some((path, _)) = places.first() else { return Vec::new() };
    let (first, last) = (places.iter().map(|it| it.1.start).min(), places.iter().map(|it| it.1.end).max());
    let is_between = |at: &Range<usize>| first.is_some_and(|it| it <= at.start) && last.is_some_and(|it| at.end <= it);
    let file = files.iter().filter(|it| Path::new(path).ends_with(&it.path));
    let ranges = file.flat_map(|it| &it.ranges).filter(|(site, at)| is_between(at) && sites[*site].is_jump());
    ranges.map(|(site, _)| *site).collect()
}

fn place(span: &Value) -> Option<(&str, Range<usize>)> {
    let [start, end] = ["byte_start", "byte_end"].map(|it| span[it].as_u64().map(|at| at as usize));
    Some((span["file_name"].as_str()?, start?..end?))
}

/// The innermost site around a place; or else one in it, first of all a jump without which a block goes on.
fn site_at(path: &str, at: &Range<usize>, files: &[Mutated], sites: &[Site]) -> Option<usize> {
    let file = files.iter().find(|it| Path::new(path).ends_with(&it.path))?;
    let around = file.ranges.iter().filter(|(_, range)| range.contains(&at.start));
    let inside = || file.ranges.iter().rev().filter(|(_, range)| at.start <= range.start && range.end <= at.end);
    let jump = inside().find(|(site, _)| sites[*site].is_jump()).or_else(|| inside().next());
    around.min_by_key(|(_, range)| range.len()).or(jump).map(|(site, _)| *site)
}

/// Builds the tests of the crates that these files are of.
pub(crate) fn near<'s>(copy: &Copy, files: impl Iterator<Item = &'s str>) -> Result<Vec<Program>, String> {
    let fits = |file: &str| NEAR.iter().find(|(folder, _)| file.starts_with(folder));
    let own: BTreeSet<&str> = files.filter_map(fits).flat_map(|(_, crates)| *crates).copied().collect();
    let own: Vec<&str> = own.into_iter().collect();
    tests(copy, &own, &["--lib", "--test", "*"])
}

/// Builds what else hunts: the tests of the crates above.
pub(crate) fn far(copy: &Copy) -> Result<Vec<Program>, String> {
    tests(copy, &FAR, &[])
}

fn tests(copy: &Copy, packages: &[&str], targets: &[&str]) -> Result<Vec<Program>, String> {
    let start = Instant::now();
    let packages: Vec<&str> = packages.iter().flat_map(|it| ["-p", it]).collect();
    let mut programs = Vec::new();
    for message in build(copy, &[&["test", "--no-run"][..], &packages, targets].concat())? {
        if message["profile"]["test"] == true {
            programs.extend(program(copy, &message));
        }
    }
    let (count, seconds) = (counted(programs.len() as u64, "program"), start.elapsed().as_secs());
    eprintln!("mutants of logic: {count} of tests, built in {seconds} s");
    Ok(programs)
}

/// The program that a message is about, if there is one.
fn program(copy: &Copy, message: &Value) -> Option<Program> {
    let (path, manifest) = (message["executable"].as_str()?, message["manifest_path"].as_str()?);
    let folder = Path::new(manifest).parent()?.to_path_buf();
    let package = folder.strip_prefix(&copy.root).unwrap_or(&folder).display().to_string();
    let name = format!("{package} {}", message["target"]["name"].as_str()?);
    Some(Program { name, path: path.into(), folder })
}

/// What was built.
fn build(copy: &Copy, call: &[&str]) -> Result<Vec<Value>, String> {
    let (mut messages, is_built) = cargo(copy, call)?;
    if !is_built {
        return Err(format!("the copy's tests do not compile:\n{}", first_error(&messages)));
    }
    messages.retain(|it| it["reason"] == "compiler-artifact");
    Ok(messages)
}

/// Runs cargo in the copy; its messages, and whether it succeeded.
///
/// Crates of others are those that the workspace's own tests were built with. Ours are optimized, as in the kernel, and
/// without `debug_assert!`, which no user of the engine has.
fn cargo(copy: &Copy, call: &[&str]) -> Result<(Vec<Value>, bool), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(call).args(["--quiet", "--message-format", "json"]);
    for (package, level) in OURS {
        for setting in [&format!("opt-level={level}"), "debug=0", "debug-assertions=false", "overflow-checks=false"] {
            command.args(["--config", &format!("profile.dev.package.{package}.{setting}")]);
        }
    }
    // Each build has other mutants: what an earlier one left half-made has failed to link.
    command.env("CARGO_INCREMENTAL", "0");
    command.current_dir(&copy.root).env("RUSTC_WORKSPACE_WRAPPER", copy.root.join(WRAPPER));
    command.env("CARGO_TARGET_DIR", copy.root.parent().unwrap_or(&copy.root));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ok((messages, output.status.success()))
}
