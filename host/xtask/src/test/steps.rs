//! The steps that need no machine: formatting, clippy, tidy, host tests, documentation.

use cargo_metadata::{Metadata, Package};
use fs_err as fs;

use super::{
    found, guests, libtest, linux,
    outcome::{Outcome, Say},
};
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
    /// A function here or beside.
    Own(fn(&Emulator, Say<'_>) -> Result<Outcome, Failure>),
    /// A check that takes longer.
    Long(&'static check::long::Long),
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

    let call = |words: &[&str]| vec![owned(words)];
    let check = |words: &[&str]| Work::Cargo(call(&[&check::CALL, words].concat()));
    let mut steps = Vec::new();
    let mut add = |name: &str, work| steps.push(Step { name: name.to_string(), work });
    add("fmt", Work::Cargo(call(&["fmt", "--all", "--check"])));
    add("tidy", Work::Own(|_, _| tidy()));
    add("long checks", Work::Own(|_, _| Ok(Outcome::of_problems(&check::long::problems()?))));
    add("clippy host", Work::Cargo(call(&clippy_host)));
    add("clippy bare", Work::Cargo(call(&clippy_bare)));
    add("host tests", Work::Tests(owned(&tests)));
    add("check", check(&[]));
    add("mutants", check(&["--mutants"]));
    add("litmus", check(&["litmus"]));
    add("zoo", check(&["zoo"]));
    add("code", Work::Own(|_, say| code(say)));
    add("logic mutants", check(&[&["logic-mutants"], &MUTANTS[..]].concat()));
    add("doc", Work::Cargo(vec![owned(&doc_host), owned(&doc_bare)]));
    add("published", Work::Own(|_, say| published(say)));
    add("linux", Work::Own(|emulator, say| guests::linux(&Kind::HOST, emulator, say)));
    add("linux today", Work::Own(|emulator, say| guests::linux(&Kind::today(false), emulator, say)));
    add("linux today 16k", Work::Own(|emulator, say| guests::linux(&Kind::today(true), emulator, say)));
    add("monitored linux", Work::Own(linux::monitored));
    add("monitored linux today", Work::Own(linux::monitored_today));
    add("demo mixed-cpus", Work::Own(linux::demo));
    add("outside", Work::Own(guests::outside));
    add("forgotten TLBIs, audited, QEMU 11", Work::Own(|_, say| guests::audited(say)));
    add("linux, audited, QEMU 11", Work::Own(|_, say| guests::audited_linux(guests::BOOT, say)));
    if is_full {
        add("linux under load, audited, QEMU 11", Work::Own(|_, say| guests::audited_linux(guests::LOADS, say)));
        add("as others find it", Work::Own(|_, say| found::found(say)));
        check::long::fuzzers().for_each(|long| add(long.name, Work::Long(long)));
    }
    add("programs", Work::Own(guests::programs));
    add("selftests of Linux", Work::Own(guests::selftests));
    steps
}

/// Runs a step to its end.
pub(crate) fn run(step: &Step, emulator: &Emulator, say: Say<'_>) -> Outcome {
    let outcome = match &step.work {
        Work::Long(long) => Ok(Outcome::of_call(long.run(say))),
        Work::Own(work) => work(emulator, say),
        Work::Tests(arguments) => Ok(libtest::counted(cargo::output(arguments, &[], say))),
        Work::Cargo(calls) => all_of(calls, say),
    };
    outcome.unwrap_or_else(|failure| Outcome::stopped(&step.name, failure))
}

fn all_of(calls: &[Vec<String>], say: Say<'_>) -> Result<Outcome, Failure> {
    for arguments in calls {
        if arguments.iter().any(|argument| argument == bare::BARE_TARGET) {
            ensure_target(bare::BARE_TARGET)?;
        }
        let outcome = Outcome::of_call(cargo::output(arguments, &[], say));
        if outcome.failed > 0 {
            return Ok(outcome);
        }
    }
    Ok(Outcome::passed(""))
}

/// Builds the kernel, and runs its code and the mutants of it.
fn code(say: Say<'_>) -> Result<Outcome, Failure> {
    let kernel = bare::build(bare::Program::Kernel, &mut *say)?;
    let elf = kernel.elf.to_string_lossy();
    Ok(Outcome::of_call(cargo::output(&[&check::CALL[..], &["code", "--kernel", &elf]].concat(), &[], say)))
}

/// Packages what is published, and compares what it offers with the record.
fn published(say: Say<'_>) -> Result<Outcome, Failure> {
    // A folder that no packaging has used. Cargo unpacks a crate once for each folder that the
    // crate was packaged in, and never looks again: packaged in the same place, a crate is built
    // against what its neighbours were at first.
    let folder = cargo::new_folder("published")?;
    let names = owned(&api::PUBLISHED);
    let words = ["package", "--allow-dirty", "--target-dir", &folder];
    let packaged = cargo::output(&[&words, &with_each("--package", &names)[..]].concat(), &[], say);
    // What is left behind costs room and nothing else.
    let _ = fs::remove_dir_all(&folder);
    if !packaged.1 {
        return Ok(Outcome::of_call(packaged));
    }
    Ok(match api::all_differences()? {
        lines if lines.is_empty() => Outcome::passed(""),
        lines => Outcome::failed(format!("{lines}(cargo xtask api --write puts this on record)\n")),
    })
}

fn tidy() -> Result<Outcome, Failure> {
    let report = tidy::check()?;
    let lines: Vec<String> = report.findings.iter().map(tidy::Finding::to_string).collect();
    Ok(Outcome { note: report.summary(), ..Outcome::of_problems(&lines) })
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
            Work::Own(_) | Work::Long(_) => String::new(),
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
