//! `cargo xtask audit linux`: a Linux under load, bare or above the monitor, whose every store to a table, TLBI and barrier is judged.
//!
//! ```text
//! kernel ──boot──▶ System.map ───────┐
//! busybox, programs, modules ──cpio──┴─▶ vellum audit ──▶ the guest's lines, findings, a verdict
//! ```

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Parser, ValueEnum, value_parser};
use fs_err as fs;

use crate::{
    bare::Program,
    boot::{
        self, Programs, audit,
        emulator::Emulator,
        guest::{self, Chunk, End, Ended},
        options,
        transcript::Transcript,
    },
    cargo, dist,
    fetch::{
        linux::{Kind, Linux},
        qemu::Version,
    },
    help,
    outcome::{Failure, Status},
    terminal,
};

const EXAMPLES: &str = "Examples:
  cargo xtask audit linux                      today's Linux on two CPUs of QEMU 11, a round of load
  cargo xtask audit linux --page-size 16k --cpus 4
  cargo xtask audit linux --rounds 0           boot and power off alone
  cargo xtask audit linux --machine bare/monitor/machines/all-resize.toml
                                               above the monitor, judged with its stage 2
  cargo xtask audit linux -- --trace linux.trace
                                               arguments behind -- go to vellum audit
  cargo xtask audit linux --memory 256M --load short -- --forget all --only tlb_flush
                                               each TLBI and barrier of it forgotten in turn

The load: programs of ours that map, protect, fork and hold secret pages, pipes of busybox, five
modules that come and go, and memory that is moved. Names of functions come from the kernel
itself, in a first boot. `cargo xtask fetch linux --suite trixie-backports` and `cargo xtask fetch
qemu 11` get what is needed; host/cli/frames says which functions free memory, and which findings
are known.

Exit status: 0 clean, or a table was made; 1 a rule is broken or the load failed, 2 an option is
wrong, 3 this host lacks something.";

/// Linux under load, every store to its tables, TLBI and barrier judged by the rules of the
/// simulated machine
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    what: What,
    /// The host's own Linux, or the newest
    #[arg(long, value_name = "WHICH", default_value = "today", value_parser = ["host", "today"])]
    linux: String,
    /// Page size of the kernel
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = ["4k", "16k"])]
    page_size: String,
    /// Number of CPUs, 1 to 8
    #[arg(long, value_name = "N", default_value = "2", value_parser = value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// Above the monitor, on this machine
    #[arg(long, value_name = "FILE.toml")]
    machine: Option<PathBuf>,
    /// How often the load is repeated; 0: the guest only boots
    #[arg(long, value_name = "N", default_value = "1")]
    rounds: u32,
    /// How much of the load a round is: four programs, two pipes and a module, or all
    #[arg(long, value_name = "LOAD", default_value = "whole", value_parser = ["whole", "short"])]
    load: String,
    /// The guest's memory: with less of it there is less to map
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    memory: String,
    /// Arguments for vellum audit
    #[arg(last = true)]
    words: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    Linux,
}

const LOAD: &str = include_str!("audit/load.sh");
const SYMBOLS: &str = include_str!("audit/symbols.sh");
/// Before each line that is one of a System.map.
const SYMBOL: &str = "guest: symbol ";
/// Programs of ours that the load consists of.
const PROGRAMS: [&str; 9] =
    ["advising", "breaking", "forking", "mapping", "protecting", "remapping", "secrets", "threads", "unmapping"];
/// The QEMU that audits need.
const EMULATOR: Emulator = Emulator::Version(Version::V11);
/// How long a guest may say nothing.
const SILENCE: Duration = Duration::from_secs(3600);

/// Entry of `cargo xtask audit`.
pub(crate) fn main(options: &Options) -> Result<Status, Failure> {
    let ended = run(options, &mut |chunk| match chunk {
        Chunk::Output(bytes) => terminal::print(String::from_utf8_lossy(bytes)),
        Chunk::Complaint(bytes) => eprint!("{}", String::from_utf8_lossy(bytes)),
    })?;
    if options.words.iter().any(|word| word == "--forget") {
        return Ok(Status::Passed);
    }
    match wrong(&ended) {
        None => Ok(Status::Passed),
        Some(line) => Err(Failure::failed(line)),
    }
}

/// The options in these words.
pub(crate) fn parse(words: &str) -> Result<Options, Failure> {
    let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    help::read("audit", &words)
}

/// Audits the guest to its end.
pub(crate) fn run(options: &Options, sink: &mut dyn FnMut(&Chunk)) -> Result<Ended, Failure> {
    let linux = Kind::of(&options.page_size, &options.linux).need()?;
    if linux.modules.is_empty() && options.rounds > 0 {
        return Err(Failure::host_lacks("this Linux has no modules here: cargo xtask fetch linux, as it was fetched"));
    }
    EMULATOR.ensure()?;
    let symbols = symbols(&linux)?;
    let initrd = linux.built("load.cpio")?;
    linux.write_with(LOAD, &files(&linux)?, &initrd)?;
    let append = format!("quiet secretmem.enable=y rounds={} load={}", options.rounds, options.load);
    let command = boot(&linux, &initrd, &append, options)?;
    let mut words: Vec<OsString> = vec!["--symbols".into(), symbols.into(), "--cpu".into(), "ordered=1".into()];
    for (option, ending) in
        [("--frames", if options.page_size == "16k" { "-16k" } else { "" }), ("--excuses", "-excuses")]
    {
        words.extend([option.into(), known(&linux, ending)?.into()]);
    }
    words.extend(options.words.iter().cloned());
    let mut audited = audit::wrapped(&command.0, &words)?;
    let ended = guest::run_while_it_speaks(&mut audited, SILENCE, sink);
    Ok(ended?)
}

/// Why an audit is not as it should be.
pub(crate) fn wrong(ended: &Ended) -> Option<String> {
    let transcript = Transcript::new(&ended.output);
    let complaint = transcript.lines().find(|line| line.starts_with("load: "));
    match &ended.end {
        _ if complaint.is_some() => complaint.map(str::to_owned),
        _ if !transcript.lines().any(|line| line == "guest: ready") => Some("the load did not come to its end".into()),
        End::Exited(0) => None,
        End::Exited(1) => Some("the audit found what the architecture forbids".into()),
        _ => Some(ended.complaints.lines().last().unwrap_or("the audit did not end").to_owned()),
    }
}

/// What is known of this version, beside those of others.
fn known(linux: &Linux, ending: &str) -> Result<PathBuf, Failure> {
    let version: Vec<&str> =
        linux.name.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty()).take(2).collect();
    let path = cargo::workspace().join(format!("host/cli/frames/linux-{}{ending}.txt", version.join(".")));
    let line = || format!("{}: nothing is known of {}", path.display(), linux.name);
    if path.exists() { Ok(path.clone()) } else { Err(Failure::host_lacks(line())) }
}

/// The files of the load.
fn files(linux: &Linux) -> Result<Vec<(String, PathBuf)>, Failure> {
    let built = dist::build_static("programs")?;
    let programs = PROGRAMS.map(|name| (format!("programs/{name}"), built.join(name)));
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let modules = linux.modules.iter().map(|path| (format!("modules/{}", name(path)), path.clone()));
    Ok(programs.into_iter().chain(modules).collect())
}

/// The names of the kernel's functions, which it says itself, once.
fn symbols(linux: &Linux) -> Result<PathBuf, Failure> {
    let map = linux.built(&format!("System.map-{}", linux.name))?;
    if map.exists() {
        return Ok(map);
    }
    let initrd = linux.built("symbols.cpio")?;
    linux.write_with(SYMBOLS, &[], &initrd)?;
    let mut command = boot(linux, &initrd, "quiet", &parse("linux --cpus 1")?)?;
    let ended = guest::run_while_it_speaks(&mut command.0, SILENCE, &mut |_| {})?;
    let transcript = Transcript::new(&ended.output);
    let text: String =
        transcript.lines().filter_map(|line| line.strip_prefix(SYMBOL)).map(|line| format!("{line}\n")).collect();
    if text.is_empty() {
        return Err(Failure::failed(format!("{} does not name its functions", linux.name)));
    }
    fs::write(&map, text)?;
    Ok(map)
}

type Booted = (std::process::Command, boot::Files);

fn boot(linux: &Linux, initrd: &Path, append: &str, on: &Options) -> Result<Booted, Failure> {
    let options = options::Options {
        kernel: Some(linux.kernel.clone()),
        initrd: Some(initrd.to_owned()),
        append: vec![format!("console=ttyAMA0 nokaslr {append}")],
        monitor: on.machine.is_some(),
        description: on.machine.clone(),
        emulator: EMULATOR,
        ..options::of(&format!("--timeout 86400 --memory {} --cpus {}", on.memory, on.cpus))?
    };
    let monitor = on.machine.as_ref().map(|_| Program::Monitor);
    let programs = Programs::build(monitor.as_slice(), &mut |line| eprintln!("{line}"))?;
    boot::command(&options, &programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(output: &str, code: i32) -> Ended {
        Ended { output: output.into(), complaints: "vellum: why".into(), end: End::Exited(code) }
    }

    #[test]
    fn an_audit_is_right_when_the_load_was_and_nothing_is_found() {
        assert_eq!(wrong(&ended("guest: ready\r\n", 0)), None);
        assert!(wrong(&ended("guest: ready\r\n", 1)).is_some_and(|line| line.contains("forbids")));
        assert_eq!(wrong(&ended("guest: ready\r\n", 2)).as_deref(), Some("vellum: why"));
        assert!(wrong(&ended("", 0)).is_some_and(|line| line.contains("end")));
        assert!(
            wrong(&ended("load: x ended with 1\r\nguest: ready\r\n", 0)).is_some_and(|line| line.contains("x ended"))
        );
    }

    #[test]
    fn versions_are_known_by_the_packages_name() {
        let linux = |name: &str| Linux { kernel: "k".into(), busybox: "b".into(), modules: vec![], name: name.into() };
        assert!(known(&linux("linux-binary-7.3.4+deb13-arm64-16k"), "-16k").is_ok());
        assert!(known(&linux("linux-image-6.1.0-56-arm64"), "-excuses").is_ok());
        assert!(known(&linux("linux-image-5.10.0-arm64"), "").is_err());
    }
}
