//! The steps that need no machine: formatting, clippy, tidy, host tests, documentation.

use std::fs;

use cargo_metadata::{Metadata, Package};

use super::{Outcome, Say, found, guests, libtest, linux};
use crate::{
    api, bare, boot::emulator::Emulator, cargo, check, fetch::linux::Kind, outcome::Failure, tidy,
    toolchain::ensure_target,
};

/// A step and its work.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    work: Work,
}

/// What a step does.
#[derive(Debug)]
enum Work {
    /// Cargo, with these arguments; all of them must succeed.
    Cargo(Vec<Vec<String>>),
    /// `cargo test`, whose tests are counted.
    Tests(Vec<String>),
    /// Guests in QEMU, beside `vellum` or above the monitor.
    Guests(fn(&Emulator, Say<'_>) -> Outcome),
    /// The kernel's machine code on the simulated machine.
    Code,
    Tidy,
    /// The record of the checks that take longer.
    Recorded,
    /// One of these.
    Long(&'static check::long::Long),
    /// What the published crates offer, and that they can be published.
    Published,
}

/// The mutants of logic that every test run hunts: always the same of the same sources. Those of address spaces take 100 seconds more, and are
/// hunted when these change.
const MUTANTS: [&str; 7] =
    ["--only", "engine/vmsa,engine/pagetable,engine/linearmap", "--sample", "60", "--seed", "1", "--quick"];

/// All steps, with those that `--full` alone has, in the order in which they find fault soonest.
pub(crate) fn all(metadata: &Metadata, is_full: bool) -> Vec<Step> {
    let bare = bare_crates(metadata);
    let without_bare = with_each("--exclude", &bare);
    let kernel_and_engine = crates_in(metadata, &["engine", "bare"]);
    let target = ["--target", bare::BARE_TARGET];
    let deny = ["--", "-D", "warnings"];

    let clippy_host = [&["clippy", "--workspace", "--all-targets"], &without_bare[..], &deny].concat();
    let clippy_bare = [&["clippy"], &target[..], &with_each("--package", &kernel_and_engine), &deny].concat();
    let tests = [&["test", "--workspace", "--no-fail-fast"], &without_bare[..]].concat();
    let doc_host = [&["doc", "--no-deps", "--all-features", "--workspace"], &without_bare[..]].concat();
    let doc_bare = [&["doc", "--no-deps"], &target[..], &with_each("--package", &bare)].concat();

    let mut steps = Vec::new();
    let mut add = |name: &str, work| steps.push(Step { name: name.to_string(), work });
    add("fmt", Work::Cargo(vec![owned(&["fmt", "--all", "--check"])]));
    add("tidy", Work::Tidy);
    add("long checks", Work::Recorded);
    add("clippy host", Work::Cargo(vec![owned(&clippy_host)]));
    add("clippy bare", Work::Cargo(vec![owned(&clippy_bare)]));
    add("host tests", Work::Tests(owned(&tests)));
    add("check", Work::Cargo(vec![owned(&check::CALL)]));
    add("mutants", Work::Cargo(vec![owned(&[&check::CALL[..], &["--mutants"]].concat())]));
    add("litmus", Work::Cargo(vec![owned(&[&check::CALL[..], &["litmus"]].concat())]));
    add("zoo", Work::Cargo(vec![owned(&[&check::CALL[..], &["zoo"]].concat())]));
    add("code", Work::Code);
    add("logic mutants", Work::Cargo(vec![owned(&[&check::CALL[..], &["logic-mutants"], &MUTANTS].concat())]));
    add("doc", Work::Cargo(vec![owned(&doc_host), owned(&doc_bare)]));
    add("published", Work::Published);
    add("linux", Work::Guests(|emulator, say| guests::linux("linux", &Kind::HOST, emulator, say)));
    add("linux today", Work::Guests(|emulator, say| guests::linux("linux today", &Kind::today(false), emulator, say)));
    add(
        "linux today 16k",
        Work::Guests(|emulator, say| guests::linux("linux today 16k", &Kind::today(true), emulator, say)),
    );
    add("monitored linux", Work::Guests(linux::monitored));
    add("monitored linux today", Work::Guests(linux::monitored_today));
    add("demo mixed-cpus", Work::Guests(linux::demo));
    add("outside", Work::Guests(guests::outside));
    add(guests::FORGETFUL, Work::Guests(guests::audited));
    add(guests::AUDITED, Work::Guests(guests::audited_boot));
    if is_full {
        add("linux under load, audited, QEMU 11", Work::Guests(guests::audited_loads));
        add("as others find it", Work::Guests(|_, say| found::found(say)));
        check::long::fuzzers().for_each(|long| add(long.name, Work::Long(long)));
    }
    add("programs", Work::Guests(guests::programs));
    add("selftests of Linux", Work::Guests(guests::selftests));
    steps
}

/// Runs a step to its end.
pub(crate) fn run(step: &Step, emulator: &Emulator, say: Say<'_>) -> Outcome {
    match &step.work {
        Work::Tidy => tidy(),
        Work::Recorded => recorded(),
        Work::Long(long) => match long.run(say) {
            (_, true) => Outcome::passed(""),
            (output, false) => Outcome::failed(output),
        },
        Work::Published => published(say),
        Work::Guests(tests) => tests(emulator, say),
        Work::Code => code(say),
        Work::Tests(arguments) => {
            let (output, has_succeeded) = cargo::output(arguments, &[], say);
            let counted = libtest::count(&output, has_succeeded);
            Outcome { output, ..counted }
        }
        Work::Cargo(calls) => {
            for arguments in calls {
                if arguments.iter().any(|argument| argument == bare::BARE_TARGET)
                    && let Err(failure) = ensure_target(bare::BARE_TARGET)
                {
                    return Outcome::stopped("cargo", failure);
                }
                let (output, has_succeeded) = cargo::output(arguments, &[], say);
                if !has_succeeded {
                    return Outcome::failed(output);
                }
            }
            Outcome::passed("")
        }
    }
}

/// Builds the kernel, and runs its code and the mutants of it.
fn code(say: Say<'_>) -> Outcome {
    let kernel = match bare::build(bare::Program::Kernel, &mut *say) {
        Ok(kernel) => kernel,
        Err(failure) => return Outcome::stopped("code", failure),
    };
    let elf = kernel.elf.to_string_lossy();
    let (output, has_succeeded) =
        cargo::output(&owned(&[&check::CALL[..], &["code", "--kernel", &elf]].concat()), &[], say);
    if has_succeeded { Outcome::passed("") } else { Outcome::failed(output) }
}

/// Packages what is published, and compares what it offers with the record.
fn published(say: Say<'_>) -> Outcome {
    let names = owned(&api::PUBLISHED);
    let package = with_each("--package", &names);
    let folder = match packages() {
        Ok(folder) => folder,
        Err(failure) => return Outcome::stopped("published", failure),
    };
    let words = ["package", "--allow-dirty", "--target-dir", &folder];
    let (output, has_succeeded) = cargo::output(&owned(&[&words, &package[..]].concat()), &[], say);
    // What is left behind costs room and nothing else.
    let _ = fs::remove_dir_all(&folder);
    if !has_succeeded {
        return Outcome::failed(output);
    }
    match api::differences() {
        Ok(lines) if lines.is_empty() => Outcome::passed(""),
        Ok(lines) => Outcome::failed(format!("{lines}(cargo xtask api --write puts this on record)\n")),
        Err(failure) => Outcome::stopped("published", failure),
    }
}

/// A folder that no packaging has used. Cargo unpacks a crate once for each folder that the crate was packaged in, and never looks
/// again: packaged in the same place, a crate is built against what its neighbours were when that place was first used.
fn packages() -> Result<String, Failure> {
    cargo::new_folder("published")
}

fn tidy() -> Outcome {
    match tidy::check() {
        Ok(report) if report.findings.is_empty() => {
            Outcome::passed(format!("{} files of {} crates", report.files, report.crates))
        }
        Ok(report) => {
            let lines: Vec<String> = report.findings.iter().map(tidy::Finding::to_string).collect();
            Outcome::failed(lines.join("\n"))
        }
        Err(failure) => Outcome::stopped("tidy", failure),
    }
}

fn recorded() -> Outcome {
    match check::long::problems() {
        Ok(problems) if problems.is_empty() => Outcome::passed(""),
        Ok(problems) => Outcome::failed(problems.join("\n")),
        Err(failure) => Outcome::stopped("long checks", failure),
    }
}

/// Members of `bare/` that a plain `cargo build` leaves out: those are for the bare-metal target.
fn bare_crates(metadata: &Metadata) -> Vec<String> {
    let default = &metadata.workspace_default_members;
    names(metadata, |package| is_in(metadata, package, &["bare"]) && !default.contains(&package.id))
}

/// Members that the kernel is made of, by their folders: what lints as a host library may not lint as it really runs.
fn crates_in(metadata: &Metadata, folders: &[&str]) -> Vec<String> {
    names(metadata, |package| is_in(metadata, package, folders))
}

/// Whether a crate's folder is in one of these of the workspace, wherever and under whatever name that was checked out.
fn is_in(metadata: &Metadata, package: &Package, folders: &[&str]) -> bool {
    let path = package.manifest_path.strip_prefix(&metadata.workspace_root).ok();
    path.and_then(|path| path.components().next()).is_some_and(|first| folders.contains(&first.as_str()))
}

/// The names of the members that `is_wanted`.
fn names(metadata: &Metadata, is_wanted: impl Fn(&Package) -> bool) -> Vec<String> {
    metadata.packages.iter().filter(|package| is_wanted(package)).map(|package| package.name.to_string()).collect()
}

/// `option` before each name.
fn with_each<'n>(option: &'n str, names: &'n [String]) -> Vec<&'n str> {
    names.iter().flat_map(|name| [option, name]).collect()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_for_bare_metal_are_checked_for_bare_metal() {
        let steps = all(
            &cargo::sample(&[
                ("vellum-vmsa", "/v/engine/vmsa/Cargo.toml", &[]),
                ("hardware", "/v/bare/hardware/Cargo.toml", &[]),
                ("kernel", "/v/bare/kernel/Cargo.toml", &[]),
                ("xtask", "/v/host/xtask/Cargo.toml", &[]),
                ("bench", "/v/bench/Cargo.toml", &[]),
            ]),
            true,
        );
        let arguments = |name: &str| match &steps.iter().find(|step| step.name == name).expect("the step").work {
            Work::Cargo(calls) => calls.last().expect("a call").join(" "),
            Work::Tests(arguments) => arguments.join(" "),
            Work::Tidy | Work::Recorded | Work::Long(_) | Work::Published | Work::Code | Work::Guests(_) => {
                String::new()
            }
        };
        let target = "--target aarch64-unknown-none-softfloat";
        let bare = "--package hardware --package kernel";
        let host = "--exclude hardware --exclude kernel";
        assert_eq!(arguments("clippy host"), format!("clippy --workspace --all-targets {host} -- -D warnings"));
        assert_eq!(arguments("clippy bare"), format!("clippy {target} --package vellum-vmsa {bare} -- -D warnings"));
        assert_eq!(arguments("host tests"), format!("test --workspace --no-fail-fast {host}"));
        assert_eq!(arguments("doc"), format!("doc --no-deps {target} {bare}"));
    }

    #[test]
    fn a_checkout_may_have_the_name_of_one_of_our_folders() {
        let crates: [cargo::Sample<'_>; 3] = [
            ("hardware", "/bare/bare/hardware/Cargo.toml", &[]),
            ("bench", "/bare/bench/Cargo.toml", &[]),
            ("checks", "/bare/checks/Cargo.toml", &[]),
        ];
        let mut metadata = cargo::sample(&crates);
        metadata.workspace_root = "/bare".into();
        assert_eq!(crates_in(&metadata, &["engine", "bare"]), ["hardware"]);
        assert_eq!(bare_crates(&metadata), ["hardware"]);
    }

    #[test]
    fn a_step_is_as_good_as_its_commands() {
        let step = |words: &[&str]| Step { name: "x".into(), work: Work::Cargo(vec![owned(words)]) };
        assert_eq!(run(&step(&["--version"]), &Emulator::Host, &mut |_| {}), Outcome::passed(""));
        let failed = run(&step(&["no-such-command"]), &Emulator::Host, &mut |_| {});
        assert!(failed.failed == 1 && failed.output.contains("no-such-command"), "{failed:?}");
    }
}
