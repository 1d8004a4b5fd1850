//! The options of `cargo xtask run`. A boot test is described by the same options, so that a failing one can be
//! repeated by hand.

use std::{ffi::OsString, fmt, path::PathBuf, str::FromStr, time::Duration};

use lexopt::prelude::*;

use super::{loader::Loader, tree::shapes};
use crate::{cargo::Program, outcome::Failure};

/// CPUs the kernel supports. More of them can be had through `-- -smp N`, to see the kernel refuse them.
const MAX_CPUS: u32 = 8;
const LONGEST_TIMEOUT_SECONDS: u64 = 86_400;

/// What a person asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    pub(crate) page_size: Option<PageSize>,
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u64,
    pub(crate) cpu: String,
    pub(crate) append: Vec<String>,
    /// QEMU's machine.
    pub(crate) machine: String,
    /// Whether the monitor runs beneath the kernel.
    pub(crate) monitor: bool,
    /// What the monitor is to make of the machine.
    pub(crate) description: Option<PathBuf>,
    /// Another kernel than ours.
    pub(crate) kernel: Option<PathBuf>,
    pub(crate) initrd: Option<PathBuf>,
    pub(crate) loader: Loader,
    /// The name of a device tree of our own.
    pub(crate) tree: Option<&'static str>,
    pub(crate) icount: bool,
    pub(crate) gdb: bool,
    pub(crate) verbose: bool,
    /// `None` with `--gdb`: a person at a debugger is not to be hurried.
    pub(crate) timeout: Option<Duration>,
    pub(crate) qemu: Vec<OsString>,
}

/// What the command line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Help,
    /// The trees of our own, by name.
    Trees,
    Run(Box<Options>),
}

/// The page sizes there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageSize {
    Kib4,
    Kib16,
    Kib64,
}

impl FromStr for PageSize {
    type Err = String;

    fn from_str(text: &str) -> Result<PageSize, String> {
        match text {
            "4k" => Ok(PageSize::Kib4),
            "16k" => Ok(PageSize::Kib16),
            "64k" => Ok(PageSize::Kib64),
            _ => Err(format!("--page-size {text}: expected 4k, 16k or 64k")),
        }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageSize::Kib4 => "4k",
            PageSize::Kib16 => "16k",
            PageSize::Kib64 => "64k",
        })
    }
}

impl Options {
    /// What is booted, if it is ours.
    pub(crate) fn own_program(&self) -> Option<Program> {
        self.kernel.as_ref().map_or(Some(Program::Kernel), |kernel| Program::guest(kernel.as_os_str()))
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

impl Default for Options {
    fn default() -> Options {
        Options {
            page_size: None,
            cpus: 4,
            memory_mib: 2048,
            cpu: "max".into(),
            append: Vec::new(),
            machine: "virt".into(),
            monitor: false,
            description: None,
            kernel: None,
            initrd: None,
            loader: Loader::Qemu,
            tree: None,
            icount: false,
            gdb: false,
            verbose: false,
            timeout: Some(Duration::from_secs(120)),
            qemu: Vec::new(),
        }
    }
}

/// Reads the arguments that follow `run`. What follows `--` is QEMU's and is not looked at.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Asked, Failure> {
    let own = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let mut options = Options { qemu: arguments.iter().skip(own + 1).cloned().collect(), ..Options::default() };
    let mut timeout = None;
    let mut parser = lexopt::Parser::from_args(&arguments[..own]);
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("page-size") => options.page_size = Some(value(&mut parser)?.parse().map_err(wrong)?),
            Long("cpus") => options.cpus = number("--cpus", &value(&mut parser)?, MAX_CPUS.into())? as u32,
            Long("memory") => options.memory_mib = memory_mib(&value(&mut parser)?)?,
            Long("cpu") => options.cpu = cpu_model(value(&mut parser)?)?,
            Long("append") => options.append.push(value(&mut parser)?),
            Long("timeout") => timeout = Some(number("--timeout", &value(&mut parser)?, LONGEST_TIMEOUT_SECONDS)?),
            Long("machine") => match value(&mut parser)? {
                file if file.ends_with(".toml") => options.description = Some(file.into()),
                name => options.machine = name,
            },
            Long("monitor") => options.monitor = true,
            Long("kernel") => options.kernel = Some(parser.value().map_err(wrong)?.into()),
            Long("initrd") => options.initrd = Some(parser.value().map_err(wrong)?.into()),
            Long("loader") => options.loader = value(&mut parser)?.parse().map_err(wrong)?,
            Long("tree") => match value(&mut parser)?.as_str() {
                "list" => return Ok(Asked::Trees),
                name => options.tree = Some(tree(name)?),
            },
            Long("icount") => options.icount = true,
            Long("gdb") => options.gdb = true,
            Long("verbose") => options.verbose = true,
            Long("help") | Short('h') => return Ok(Asked::Help),
            other => return Err(wrong(other.unexpected())),
        }
    }
    refuse_what_does_not_go_together(&options)?;
    options.timeout = match (options.gdb, timeout) {
        (true, Some(_)) => return Err(wrong("--timeout: has no meaning with --gdb, which waits for a person")),
        (true, None) => None,
        (false, Some(seconds)) => Some(Duration::from_secs(seconds)),
        (false, None) => options.timeout,
    };
    Ok(Asked::Run(Box::new(options)))
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
        Options { monitor: true, .. } | Options { kernel: Some(_), .. } if !is_plain => {
            "--monitor, --kernel: loaded by QEMU alone, expected neither --loader nor --tree"
        }
        _ => return Ok(()),
    };
    Err(wrong(refused))
}

/// The value of the option just read.
fn value(parser: &mut lexopt::Parser) -> Result<String, Failure> {
    parser.value().and_then(|value| value.string()).map_err(wrong)
}

fn number(option: &str, text: &str, largest: u64) -> Result<u64, Failure> {
    match text.parse() {
        Ok(number) if (1..=largest).contains(&number) => Ok(number),
        _ => Err(wrong(format!("{option} {text}: expected a number from 1 to {largest}"))),
    }
}

/// `512M`, `2G`, or a plain number of MiB.
fn memory_mib(text: &str) -> Result<u64, Failure> {
    let (digits, unit_mib) = match text.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1024),
        None => (text.strip_suffix(['M', 'm']).unwrap_or(text), 1),
    };
    let count: Option<u64> = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    match count.and_then(|count| count.checked_mul(unit_mib)) {
        // QEMU counts bytes in 64 bits.
        Some(mib) if mib > 0 && mib < 1 << 40 => Ok(mib),
        _ => Err(wrong(format!("--memory {text}: expected a size like 512M or 2G, or a number of MiB"))),
    }
}

fn tree(name: &str) -> Result<&'static str, Failure> {
    let known = shapes::find(name).map(|shape| shape.name);
    known.ok_or_else(|| wrong(format!("--tree {name}: expected a name that `cargo xtask run --tree list` shows")))
}

fn cpu_model(text: String) -> Result<String, Failure> {
    if text.is_empty() || text.starts_with(['-', ',']) {
        return Err(wrong(format!("--cpu `{text}`: expected a CPU model of QEMU like max or cortex-a72")));
    }
    Ok(text)
}

fn wrong(what: impl fmt::Display) -> Failure {
    Failure::bad_input(format!("{what} (see cargo xtask run --help)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Status;

    fn parse_words(words: &[&str]) -> Result<Asked, Failure> {
        parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn options(words: &[&str]) -> Options {
        match parse_words(words) {
            Ok(Asked::Run(options)) => *options,
            other => panic!("{words:?} gave {other:?}"),
        }
    }

    fn refusal(words: &[&str]) -> String {
        let failure = parse_words(words).expect_err("accepted");
        assert_eq!(failure.status, Status::BadInput);
        assert!(!failure.line.contains('\n'), "more than one line: {}", failure.line);
        failure.line
    }

    #[test]
    fn nothing_asked_is_the_default() {
        assert_eq!(options(&[]), Options::default());
    }

    #[test]
    fn every_option_is_understood() {
        let words = "--loader gdb --tree page-hole --machine sbsa-ref --page-size 16k --cpus 8 --memory 3G --cpu max,lpa2=off --append a=b --append c --icount \
                     --verbose --initrd i --timeout 7 -- -smp 9 --page-size 5k";
        let expected = Options {
            page_size: Some(PageSize::Kib16),
            cpus: 8,
            memory_mib: 3072,
            cpu: "max,lpa2=off".into(),
            append: vec!["a=b".into(), "c".into()],
            machine: "sbsa-ref".into(),
            initrd: Some("i".into()),
            loader: Loader::Gdb,
            tree: Some("page-hole"),
            icount: true,
            gdb: false,
            verbose: true,
            timeout: Some(Duration::from_secs(7)),
            qemu: ["-smp", "9", "--page-size", "5k"].map(OsString::from).to_vec(),
            ..Options::default()
        };
        assert_eq!(options(&words.split_whitespace().collect::<Vec<_>>()), expected);
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
            (&["--monitor", "--tree", "page-hole"], "neither --loader nor --tree"),
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
    fn values_may_be_attached_and_help_wins() {
        assert_eq!(options(&["--page-size=64k"]).page_size, Some(PageSize::Kib64));
        assert_eq!(parse_words(&["--cpus", "2", "--help"]), Ok(Asked::Help));
    }

    #[test]
    fn a_debugger_is_not_hurried() {
        assert_eq!(options(&["--gdb"]).timeout, None);
        assert!(refusal(&["--gdb", "--timeout", "3"]).starts_with("--timeout: "));
    }

    #[test]
    fn memory_sizes() {
        for (text, mib) in [("512M", 512), ("2G", 2048), ("2g", 2048), ("64m", 64), ("300", 300)] {
            assert_eq!(options(&["--memory", text]).memory_mib, mib, "{text}");
        }
        for text in ["", "0", "M", "2T", "1.5G", "-1", "+5", "2GB", "99999999999999999999", "18446744073709551615G"] {
            assert!(refusal(&["--memory", text]).starts_with("--memory "), "{text}");
        }
    }

    #[test]
    fn bad_values_are_refused_with_what_was_expected() {
        assert!(refusal(&["--page-size", "8k"]).contains("expected 4k, 16k or 64k"));
        assert!(refusal(&["--page-size", "4K"]).contains("expected 4k, 16k or 64k"));
        for cpus in ["0", "9", "many", "-1", ""] {
            assert!(refusal(&["--cpus", cpus]).contains("from 1 to 8"), "{cpus}");
        }
        for timeout in ["0", "86401", "1.5", "soon"] {
            assert!(refusal(&["--timeout", timeout]).contains("from 1 to 86400"), "{timeout}");
        }
        for model in ["", "-smp", ",x"] {
            assert!(refusal(&[&format!("--cpu={model}")]).contains("expected a CPU model"), "{model}");
        }
    }

    #[test]
    fn what_is_no_option_is_refused() {
        assert!(refusal(&["--tree", "none-such"]).contains("--tree list"));
        assert_eq!(parse_words(&["--tree", "list"]), Ok(Asked::Trees));
        for words in [&["--pagesize", "4k"][..], &["4k"], &["-p"], &["--cpus"], &["--icount=yes"]] {
            refusal(words);
        }
    }
}
