//! The options of `cargo xtask run`. A boot test is described by the same options, so that a failing one can be
//! repeated by hand.

use std::{ffi::OsString, fmt, path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum, value_parser};

use super::{
    emulator::{self, Emulator},
    tree::shapes,
};
use crate::{bare::Program, fetch::qemu::Version, help, outcome::Failure};

const LONGEST_TIMEOUT_SECONDS: u64 = 86_400;
/// What `--tree` has to say to have the trees listed.
pub(super) const LIST: &str = "list";

const EXAMPLES: &str = r#"Examples:
  cargo xtask run                                4 CPUs, 2 GiB, the kernel's own choice of page size
  cargo xtask run --page-size 64k --cpus 8       64K pages on 8 CPUs
  cargo xtask run -- -M virtualization=on        entry at EL2: arguments behind -- go to QEMU
  cargo xtask run --append vellum.vabits=39      an option of docs/options.md: 39-bit addresses
  cargo xtask run --init "busybox sh -c 'echo hello; ls /'"
                                                 a static Linux program, once self-checks passed
  cargo xtask run --tree page-hole               a device tree of our own: RAM with one page missing
  cargo xtask run --machine xlnx-versal-virt     another machine, with RAM at address 0
  cargo xtask run --monitor --machine bare/monitor/machines/cortex-x4-a720.toml
                                                 above the monitor, on CPUs that differ
  cargo xtask run --monitor --kernel vmlinuz --initrd rootfs.cpio --append "console=ttyAMA0"
                                                 any other arm64 kernel above the monitor
  cargo xtask run --monitor --machine bare/monitor/machines/realm.toml --kernel realm
                                                 a guest of ours as a realm, which checks its host
  cargo xtask run --icount --cpus 1              guest time counts instructions
  cargo xtask run --audit                        table stores, TLBIs and barriers are judged
  cargo xtask run > boot.txt                     piped, the kernel's text passes through unchanged

Exit status:
    0  every self-check passed; of another kernel: it ended the machine
       with --init and the self-checks passed: the program's status, or 128
       and the signal that ended it
    1  a self-check failed, the kernel panicked, or the machine ended without a verdict
    2  an option or an input is wrong
    3  this host cannot run it; one line says what to install
  124  no verdict in time

Colour is used on a terminal only, and never when NO_COLOR is set."#;

/// Builds the kernel, boots it in QEMU and ends with its verdict
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true, args_override_self = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Page size asked of the kernel (arm64.pagesize=); without it the kernel takes 4K
    #[arg(long, value_name = "SIZE")]
    pub(crate) page_size: Option<PageSize>,
    /// Number of CPUs, 1 to 8
    // The kernel supports eight. More of them can be had through `-- -smp N`, to see the kernel refuse them.
    #[arg(long, value_name = "N", default_value = "4", value_parser = value_parser!(u32).range(1..=8))]
    pub(crate) cpus: u32,
    /// 512M, 2G, or a number of MiB; 7M at least with 4K pages, 9M with others
    #[arg(long = "memory", value_name = "SIZE", default_value = "2G", value_parser = memory_mib)]
    pub(crate) memory_mib: u64,
    /// QEMU's CPU model, with properties if you like: max,lpa2=off
    #[arg(long, value_name = "MODEL", default_value = "max", value_parser = cpu_model)]
    pub(crate) cpu: String,
    /// Added to the kernel's command line; may be given more than once
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) append: Vec<String>,
    /// QEMU's machine; or with --monitor a text that says what each CPU is, as in
    /// bare/monitor/machines
    #[arg(long, value_name = "NAME or FILE.toml", default_value = VIRT)]
    pub(crate) machine: String,
    /// Run the monitor at EL2, and the kernel above it; its report comes at the end
    #[arg(long)]
    pub(crate) monitor: bool,
    /// What the monitor is to make of the machine: `--machine` with a file.
    #[arg(skip)]
    pub(crate) description: Option<PathBuf>,
    /// Another arm64 Image, which has no verdict; with --monitor also a guest of ours: fuzzer,
    /// realm or resizer
    #[arg(long, value_name = "IMAGE")]
    pub(crate) kernel: Option<PathBuf>,
    /// An initial RAM disk; with --init, a cpio archive (newc) that holds the program
    #[arg(long, value_name = "FILE")]
    pub(crate) initrd: Option<PathBuf>,
    /// A static arm64 Linux program: its path here, its path in --initrd, or the fetched busybox
    #[arg(long, value_name = "PROGRAM ARGUMENTS", conflicts_with = "kernel")]
    pub(crate) init: Option<String>,
    /// Who loads the kernel: QEMU, U-Boot from a disk, or a debugger from the ELF file
    #[arg(long, value_name = "WHO", default_value = "qemu")]
    pub(crate) loader: Loader,
    /// Boot by a device tree of our own, or a damaged one; list shows them
    #[arg(long, value_name = "NAME", value_parser = tree)]
    pub(crate) tree: Option<&'static str>,
    /// Deterministic run: guest time counts instructions
    #[arg(long)]
    pub(crate) icount: bool,
    /// Judge the boot by the rules of the simulated machine (docs/audit.md), in QEMU 11
    #[arg(long, conflicts_with = "icount")]
    pub(crate) audit: bool,
    /// Our kernel, built to panic where a lock is taken out of order
    #[arg(long, conflicts_with = "kernel")]
    pub(crate) checked: bool,
    /// Stop before the first instruction and wait for gdb on port 1234; no timeout
    #[arg(long)]
    pub(crate) gdb: bool,
    /// Show everything on a terminal, and the QEMU command line
    #[arg(long)]
    pub(crate) verbose: bool,
    /// A line of JSON for each section of our kernel's report, and nothing else
    #[arg(long)]
    pub(crate) json: bool,
    /// How long to wait for a verdict, 1 to 86400
    // `None` with `--gdb`: a person at a debugger is not hurried.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = timeout, conflicts_with = "gdb")]
    pub(crate) timeout: Option<Duration>,
    /// The host's QEMU, one of version 7.2 or 11 (`cargo xtask fetch qemu`), or the program at a
    /// path
    #[arg(long = "qemu", value_name = "VERSION or PATH", default_value = "host", value_parser = emulator::parse)]
    pub(crate) emulator: Emulator,
    /// Further arguments for QEMU, added last
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) qemu: Vec<OsString>,
}

/// The page sizes there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum PageSize {
    #[value(name = "4k")]
    Kib4,
    #[value(name = "16k")]
    Kib16,
    #[value(name = "64k")]
    Kib64,
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Who puts the kernel into memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Loader {
    // QEMU (`-kernel`).
    Qemu,
    // U-Boot (`-bios`), which finds the Image on a disk and starts it by `booti`.
    #[value(name = "u-boot")]
    UBoot,
    // A debugger, which writes the ELF file's segments and sets pc and x0.
    Gdb,
}

/// QEMU's machine where none is named.
const VIRT: &str = "virt";

impl Options {
    /// The options as they are carried out, or why they do not go together.
    pub(crate) fn settled(mut self) -> Result<Options, Failure> {
        if self.machine.ends_with(".toml") {
            self.description = Some(std::mem::replace(&mut self.machine, VIRT.into()).into());
        }
        self.timeout = self.timeout.filter(|_| !self.gdb);
        if self.audit && self.emulator == Emulator::Host {
            // Older ones do not show what is stored.
            self.emulator = Emulator::Version(Version::V11);
        }
        refuse_what_does_not_go_together(&self).map(|()| self)
    }

    /// What is booted, if it is ours.
    pub(crate) fn own_program(&self) -> Option<Program> {
        let kernel = if self.checked { Program::CheckedKernel } else { Program::Kernel };
        self.kernel.as_ref().map_or(Some(kernel), |kernel| Program::guest(kernel.as_os_str()))
    }

    /// Whether what is booted ends with a verdict.
    pub(crate) fn has_verdict(&self) -> bool {
        self.own_program().is_some()
    }

    /// What must be built.
    pub(crate) fn programs(&self) -> Vec<Program> {
        self.monitor.then_some(Program::Monitor).into_iter().chain(self.own_program()).collect()
    }

    /// Whether the machine is QEMU's virt, of whatever version: `virt`, `virt-7.2`.
    pub(crate) fn is_virt(&self) -> bool {
        self.machine == "virt" || self.machine.starts_with("virt-")
    }
}

#[cfg(test)]
impl Default for Options {
    fn default() -> Options {
        parse(&[]).expect("options")
    }
}

/// Reads what follows `cargo xtask run`, as a shell takes it apart: single quotes keep blanks. What
/// follows `--` is QEMU's and is not looked at.
pub(crate) fn of(text: &str) -> Result<Options, Failure> {
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for symbol in text.trim_end().chars() {
        match symbol {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            symbol => words.last_mut().expect("there is a first").push(symbol),
        }
    }
    words.retain(|word| !word.is_empty());
    parse(&words.into_iter().map(OsString::from).collect::<Vec<_>>())
}

/// Reads the arguments that follow `run`.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Options, Failure> {
    help::read::<Options>("run", arguments)?.settled()
}

fn refuse_what_does_not_go_together(options: &Options) -> Result<(), Failure> {
    let is_plain = options.loader == Loader::Qemu && options.tree.is_none();
    let refused = match options {
        Options { description: Some(_), monitor: false, .. } => {
            "--machine FILE.toml: a description is carried out by the monitor, expected --monitor beside it"
        }
        Options { kernel: Some(_), page_size: Some(_), .. } => {
            "--page-size: an option of our kernel's, expected --append with the other kernel's own"
        }
        Options { monitor: false, kernel: Some(_), .. } if options.own_program().is_some() => {
            "--kernel: a guest of the monitor's, expected --monitor beside it"
        }
        Options { monitor: true, .. } if !options.is_virt() => "--monitor: expected QEMU's virt as --machine",
        Options { monitor: true, .. } if options.loader != Loader::Qemu => {
            "--monitor: loaded by QEMU alone, expected no --loader"
        }
        Options { monitor: false, kernel: Some(_), .. } if !is_plain => {
            "--kernel: loaded by QEMU alone, expected neither --loader nor --tree"
        }
        _ => return Ok(()),
    };
    Err(Failure::bad_input(format!("{refused} (see cargo xtask run --help)")))
}

/// `512M`, `2G`, or a plain number of MiB.
fn memory_mib(text: &str) -> Result<u64, &'static str> {
    let (digits, unit_mib) = match text.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1024),
        None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
    };
    let count: Option<u64> = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    // QEMU counts bytes in 64 bits.
    let mib = count.and_then(|count| count.checked_mul(unit_mib)).filter(|mib| (1..1 << 40).contains(mib));
    mib.ok_or("expected a size like 512M or 2G, or a number of MiB")
}

fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (1..=LONGEST_TIMEOUT_SECONDS).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| format!("expected a number from 1 to {LONGEST_TIMEOUT_SECONDS}"))
}

fn tree(name: &str) -> Result<&'static str, &'static str> {
    let known = shapes::find(name).map(|shape| shape.name);
    known.or((name == LIST).then_some(LIST)).ok_or("expected a name that `cargo xtask run --tree list` shows")
}

fn cpu_model(text: &str) -> Result<String, &'static str> {
    let is_model = !text.is_empty() && !text.starts_with(['-', ',']);
    is_model.then(|| text.to_string()).ok_or("expected a CPU model of QEMU like max or cortex-a72")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    fn parse_words(words: &[&str]) -> Result<Options, Failure> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn options(words: &[&str]) -> Options {
        parse_words(words).unwrap_or_else(|failure| panic!("{words:?}: {failure}"))
    }

    fn refusal(words: &[&str]) -> String {
        let failure = parse_words(words).expect_err("accepted");
        assert_eq!(failure.status, Status::BadInput);
        assert!(!failure.line.contains('\n'), "more than one line: {}", failure.line);
        failure.line
    }

    #[test]
    fn nothing_asked_is_four_cpus_with_2_gib() {
        let options = options(&[]);
        assert_eq!((options.cpus, options.memory_mib, options.timeout), (4, 2048, Some(Duration::from_secs(120))));
        assert_eq!((options.cpu.as_str(), options.machine.as_str(), options.loader), ("max", "virt", Loader::Qemu));
    }

    #[test]
    fn a_monitor_and_other_kernels() {
        let expected = Options {
            monitor: true,
            description: Some("mixed.toml".into()),
            kernel: Some("vmlinuz".into()),
            ..Options::default()
        };
        assert_eq!(options(&["--monitor", "--machine", "mixed.toml", "--kernel", "vmlinuz"]), expected);
        for (words, part) in [
            (&["--machine", "mixed.toml"][..], "expected --monitor"),
            (&["--monitor", "--machine", "sbsa-ref"], "expected QEMU's virt"),
            (&["--monitor", "--loader", "gdb"], "expected no --loader"),
            (&["--kernel", "k", "--loader", "gdb"], "neither --loader nor --tree"),
            (&["--kernel", "k", "--page-size", "4k"], "expected --append"),
            (&["--kernel", "fuzzer"], "expected --monitor"),
            (&["--kernel", "realm"], "expected --monitor"),
        ] {
            assert!(refusal(words).contains(part), "{words:?}: {}", refusal(words));
        }
    }

    #[test]
    fn what_is_booted_is_what_is_built() {
        let programs = |words: &[&str]| options(words).programs();
        assert_eq!(programs(&[]), [Program::Kernel]);
        assert_eq!(programs(&["--monitor"]), [Program::Monitor, Program::Kernel]);
        assert_eq!(programs(&["--monitor", "--kernel", "vmlinuz"]), [Program::Monitor]);
        assert_eq!(programs(&["--monitor", "--kernel", "fuzzer"]), [Program::Monitor, Program::Fuzzer]);
        assert_eq!(programs(&["--monitor", "--kernel", "realm"]), [Program::Monitor, Program::Realm]);
        assert_eq!(programs(&["--monitor", "--kernel", "resizer"]), [Program::Monitor, Program::Resizer]);
        assert!(!options(&["--kernel", "vmlinuz"]).has_verdict());
        assert!(options(&["--monitor", "--kernel", "fuzzer"]).has_verdict());
    }

    #[test]
    fn the_last_counts_and_what_follows_two_dashes_is_qemus() {
        assert_eq!(options(&["--cpus", "2", "--cpus", "3"]).cpus, 3);
        assert_eq!(options(&["--append", "-x", "--append", "y"]).append, ["-x", "y"]);
        assert_eq!(options(&["--", "-smp", "9", "--page-size", "5k"]).qemu, ["-smp", "9", "--page-size", "5k"]);
    }

    #[test]
    fn an_audit_needs_a_new_qemu_and_its_own_threads() {
        assert_eq!(options(&["--audit"]).emulator, Emulator::Version(Version::V11));
        assert!(refusal(&["--audit", "--icount"]).contains("'--icount'"));
    }

    #[test]
    fn a_debugger_is_not_hurried() {
        assert_eq!(options(&["--gdb"]).timeout, None);
        assert!(refusal(&["--gdb", "--timeout", "3"]).contains("'--timeout <SECONDS>'"));
    }

    #[test]
    fn memory_sizes() {
        for (text, mib) in [("512M", 512), ("2G", 2048), ("2g", 2048), ("64m", 64), ("300", 300)] {
            assert_eq!(options(&["--memory", text]).memory_mib, mib, "{text}");
        }
        for text in ["", "0", "M", "2T", "1.5G", "-1", "+5", "2GB", "99999999999999999999", "18446744073709551615G"] {
            assert!(refusal(&[&format!("--memory={text}")]).contains("expected a size like 512M"), "{text}");
        }
    }

    #[test]
    fn bad_values_are_refused_with_what_was_expected() {
        for timeout in ["0", "86401", "1.5", "soon"] {
            assert!(refusal(&["--timeout", timeout]).contains("from 1 to 86400"), "{timeout}");
        }
        for qemu in ["", "8", "qemu"] {
            assert!(refusal(&[&format!("--qemu={qemu}")]).contains("expected host, 7.2, 11 or the path"), "{qemu}");
        }
        for model in ["", "-smp", ",x"] {
            assert!(refusal(&[&format!("--cpu={model}")]).contains("expected a CPU model"), "{model}");
        }
    }
}
