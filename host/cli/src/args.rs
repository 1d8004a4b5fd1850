//! The command line. Its help teaches by example.

mod audit;
mod encoding;
mod judge;
mod plan;
pub(crate) mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use image::{Ram, Source};
use vmsa::{Level, PageSize};

pub(crate) use audit::AuditArguments;
pub(crate) use encoding::{EncodingArguments, Regime};
pub(crate) use judge::JudgeArguments;
pub(crate) use plan::{PlanArguments, Policy};

use crate::check::kinds::{Kind, Rank};
use crate::only::Only;
use crate::permissions::PermissionArguments;
use values::{level, mair, page_size, range, word};

/// See and check the page tables of any arm64 kernel
#[derive(Parser, Debug)]
#[command(name = "vellum", version, term_width = 120, after_help = include_str!("help/overview.txt"))]
pub(crate) struct Arguments {
    /// None: three things to try are shown.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Print page tables
    #[command(after_help = include_str!("help/dump.txt"))]
    Dump(DumpArguments),
    /// Find what is dangerous, wrong or wasteful
    #[command(after_help = include_str!("help/check.txt"))]
    Check(CheckArguments),
    /// What changed between two dumps, and what it cost
    #[command(after_help = include_str!("help/diff.txt"))]
    Diff(DiffArguments),
    /// A page to look at: what is mapped where, of one machine or two
    #[command(after_help = include_str!("help/report.txt"), mut_arg("part", |part| part.default_value("all")), mut_arg("ram", |ram| ram.conflicts_with("after")))]
    Report(ReportArguments),
    /// What a linear map would be made of, by page size and policy
    #[command(after_help = include_str!("help/plan.txt"))]
    Plan(PlanArguments),
    /// Rule on what a kernel logged of its stores, barriers and TLBIs
    #[command(after_help = include_str!("help/judge.txt"))]
    Judge(JudgeArguments),
    /// Run a guest of QEMU's, and rule on every store, barrier and TLBI
    #[command(after_help = include_str!("help/audit.txt"))]
    Audit(AuditArguments),
    /// A register, descriptor or operand in words
    #[command(after_help = include_str!("help/decode.txt"))]
    Decode(DecodeArguments),
    /// Fields to a register, descriptor or operand
    #[command(after_help = include_str!("help/encode.txt"))]
    Encode(EncodeArguments),
    /// Words that the shell completes, for bash, zsh, fish, …
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// An empty folder, or one to be made
        folder: PathBuf,
    },
}

/// Where the machine is, and which of its page tables are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct MachineArguments {
    /// qemu:unix:PATH, qemu:HOST:PORT, qmp:PATH, core:FILE, kcore or raw:FILE@BASE
    #[arg(value_parser = |text: &str| text.parse::<Source>())]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) access: AccessArguments,
}

/// How a machine is read, and which of its page tables are meant.
#[derive(Args, Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct AccessArguments {
    /// With qemu: and qmp:, read memory from the guest's shared memory file, while it runs
    #[arg(long, value_name = "FILE[@BASE]", value_parser = |text: &str| text.parse::<Ram>())]
    pub(crate) ram: Option<Ram>,
    /// Which part: the kernel's, the user's, EL2's, EL3's, stage 2, or every distinct root
    #[arg(long, value_enum, default_value_t = Part::Kernel)]
    pub(crate) part: Part,
    /// The page tables of this CPU alone
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
    /// Search memory for page tables, whatever the source says of registers
    #[arg(long, conflicts_with_all = ["cpu", "tcr"])]
    pub(crate) search: bool,
    /// Whose registers these are: those of EL2 (with HCR_EL2.E2H: el2&0) or EL3
    #[arg(long, value_enum, default_value_t = Regime::El1, help_heading = "Registers by hand")]
    pub(crate) regime: Regime,
    /// TTBR1_EL1 or TTBR1_EL2, where the source has no registers
    #[arg(long, value_name = "VALUE", value_parser = word, requires = "tcr", help_heading = "Registers by hand")]
    pub(crate) ttbr1: Option<u64>,
    /// TTBR0_EL1, TTBR0_EL2 or TTBR0_EL3
    #[arg(long, value_name = "VALUE", value_parser = word, requires = "tcr", help_heading = "Registers by hand")]
    pub(crate) ttbr0: Option<u64>,
    /// TCR_EL1, TCR_EL2 or TCR_EL3
    #[arg(long, value_name = "VALUE", value_parser = word, help_heading = "Registers by hand")]
    pub(crate) tcr: Option<u64>,
    /// MAIR of that level (without it, where the source has none, or with `linux`, Linux's order)
    #[arg(long, value_name = "VALUE", value_parser = mair, help_heading = "Registers by hand")]
    pub(crate) mair: Option<u64>,
    /// VTTBR_EL2
    #[arg(long, value_name = "VALUE", value_parser = word, requires = "vtcr", help_heading = "Registers by hand")]
    pub(crate) vttbr: Option<u64>,
    /// VTCR_EL2
    #[arg(long, value_name = "VALUE", value_parser = word, requires = "vttbr", help_heading = "Registers by hand")]
    pub(crate) vtcr: Option<u64>,
    /// HCR_EL2: its FWB changes the memory types of stage 2
    #[arg(long, value_name = "VALUE", value_parser = word, requires = "vttbr", help_heading = "Registers by hand")]
    pub(crate) hcr: Option<u64>,
    #[command(flatten)]
    pub(crate) permissions: PermissionArguments,
}

impl MachineArguments {
    /// The kernel half of a source, with nothing by hand.
    pub(crate) fn of(source: Source) -> Self {
        Self { source, access: AccessArguments::default() }
    }
}

/// A part of what a machine translates.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Part {
    /// The upper half (TTBR1)
    #[default]
    Kernel,
    /// The lower half of EL1&0 (TTBR0)
    User,
    /// EL2's own
    El2,
    /// EL3's
    El3,
    /// Stage 2
    Stage2,
    /// Every distinct root of every CPU
    All,
}

#[derive(Args, Debug)]
pub(crate) struct DumpArguments {
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    #[command(flatten)]
    pub(crate) how: How,
    /// Only these input addresses, END not included
    #[arg(long, value_name = "START-END", value_parser = range)]
    pub(crate) range: Option<(u64, u64)>,
}

/// What a dump shows, and how.
#[derive(Args, Debug, Default)]
pub(crate) struct How {
    /// One JSON record a line, for each run of leaves
    #[arg(long, conflicts_with_all = ["tables", "stats"])]
    pub(crate) json: bool,
    /// Every table page, instead of what it maps
    #[arg(long, conflicts_with = "stats")]
    pub(crate) tables: bool,
    /// Leaves and bytes of tables, by size and level
    #[arg(long)]
    pub(crate) stats: bool,
    /// Only leaves of these levels
    #[arg(long, value_name = "N", value_delimiter = ',', allow_negative_numbers = true, value_parser = level)]
    pub(crate) level: Vec<Level>,
    /// Only leaves with all of these properties
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Only>,
    /// Section markers in the text: Linux's linear map and the areas of its vmcoreinfo, or a file of `ADDRESS NAME` lines
    #[arg(long, value_name = "linux|none|FILE")]
    pub(crate) markers: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// End with status 1 only for findings of these kinds
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,…")]
    pub(crate) fail_on: Vec<Kind>,
    /// End with status 1 only for findings of this rank, or worse
    #[arg(long, value_enum, value_name = "RANK", conflicts_with = "fail_on")]
    pub(crate) fail_from: Option<Rank>,
    /// One JSON record a line, for each finding
    #[arg(long)]
    pub(crate) json: bool,
    /// Every place, not only the first ten of a kind
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) machine: MachineArguments,
    /// The same machine later, or another: their difference is drawn too
    #[arg(value_parser = |text: &str| text.parse::<Source>())]
    pub(crate) after: Option<Source>,
    /// What the page calls a source, one for each
    #[arg(long, value_name = "NAME")]
    pub(crate) called: Vec<String>,
    /// The page
    #[arg(short, long, value_name = "FILE.html")]
    pub(crate) output: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct DiffArguments {
    /// A saved dump (text or JSON), kernel_page_tables of a Linux, or a source
    pub(crate) before: String,
    /// The same, later
    pub(crate) after: String,
    /// Granule of text dumps, which do not tell it: 4k unless said
    #[arg(long, value_parser = page_size)]
    pub(crate) granule: Option<PageSize>,
    /// How many changes are told
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: usize,
}

#[derive(Args, Debug)]
pub(crate) struct DecodeArguments {
    /// oops, descriptor, esr, far, tlbi, midr, tcr, mair, ttbr0_el1, id_aa64mmfr2_el1, par, pagemap, ptdump, …
    pub(crate) what: String,
    /// Its value; for tlbi the operation and its operand; for oops files, or standard input
    pub(crate) values: Vec<String>,
    /// One JSON record a line
    #[arg(long)]
    pub(crate) json: bool,
    /// ID_AA64MMFR0_EL1: what the CPU has, against which TCR and VTCR are read
    #[arg(long, value_name = "VALUE", value_parser = word)]
    pub(crate) mmfr0: Option<u64>,
    #[command(flatten)]
    pub(crate) encoding: EncodingArguments,
}

#[derive(Args, Debug)]
pub(crate) struct EncodeArguments {
    /// descriptor, tlbi, tcr, mair, ttbr0_el1, …
    pub(crate) what: String,
    /// FIELD=VALUE, by number or by name; FIELD alone is 1
    pub(crate) fields: Vec<String>,
    #[command(flatten)]
    pub(crate) encoding: EncodingArguments,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// An example that wraps is no line to copy.
    #[test]
    fn examples_are_shown_as_they_are_written() {
        let mut command = Arguments::command();
        command.build();
        for (name, text) in [
            ("dump", include_str!("help/dump.txt")),
            ("check", include_str!("help/check.txt")),
            ("diff", include_str!("help/diff.txt")),
            ("report", include_str!("help/report.txt")),
            ("plan", include_str!("help/plan.txt")),
            ("judge", include_str!("help/judge.txt")),
            ("audit", include_str!("help/audit.txt")),
            ("decode", include_str!("help/decode.txt")),
            ("encode", include_str!("help/encode.txt")),
        ] {
            let of = command.find_subcommand_mut(name).expect("a command");
            assert!(of.render_long_help().to_string().contains(text.trim()), "{name}");
            assert!(text.contains("\nExit status: 0 "), "{name}");
        }
        assert!(command.render_long_help().to_string().contains(include_str!("help/overview.txt").trim()));
    }

    #[test]
    fn ranges_end_at_the_end_of_the_address_space() {
        assert_eq!(range("0x1000-0x2000"), Ok((0x1000, 0x1fff)));
        assert_eq!(range("0xffff000000000000-0"), Ok((0xffff_0000_0000_0000, u64::MAX)));
        assert_eq!(range("0xffff000000000000-"), Ok((0xffff_0000_0000_0000, u64::MAX)));
        assert!(range("0x2000-0x1000").is_err() && range("5").is_err() && range("x-y").is_err());
        assert_eq!(range("ffff000000000000-ffff000040000000"), Ok((0xffff_0000_0000_0000, 0xffff_0000_3fff_ffff)));
    }

    #[test]
    fn granules_levels_and_memory_orders_have_their_names() {
        assert_eq!((mair("linux"), mair("0xff")), (Ok(0x0000_0004_0044_f0ff), Ok(0xff)));
        assert!(mair("windows").is_err());
        assert_eq!(page_size("16K"), Ok(PageSize::Size16K));
        assert_eq!(page_size("64kib"), Ok(PageSize::Size64K));
        assert!(page_size("8k").is_err() && level("4").is_err());
        assert_eq!(level("-1"), Ok(Level::MINUS_1));
    }
}
