//! The kernel's command line: `name=value` words, of which those that begin with `vellum.` and `arm64.pagesize` are ours.
//!
//! Other programs' words share the line and are passed over in silence. What is said here is only what was asked for;
//! whether this machine can do it, and what holds where nothing was asked, the kernel decides.

mod belief;
mod cpu;
mod folios;
mod options;
pub(crate) mod problem;
mod stress;
mod values;
mod words;

pub use cpu::{CpuOverride, PageSizes};
pub use folios::Folios;
pub use options::{Exit, LinearLeaves, Options, PageAllocator, Report, Rodata};
pub use problem::Problem;
pub use stress::{Conflicts, Measure, StressKind};
pub use words::{Word, Words};

use values::{bbm_level, digits, number, page_size, page_sizes, physical_bits, size, word};

use crate::devicetree::MAX_CPUS;
use crate::finding::Findings;
use crate::text::Text;

/// Reads a command line, such as the `bootargs` of a device tree. The last of several values for an option wins.
pub fn parse<'a>(line: &'a str, findings: &mut Findings<'a>) -> Options {
    let mut options = Options::default();
    let mut words = Words::new(line);
    for word in &mut words {
        if ["arm64.pagesize", "rodata"].contains(&word.name) || word.name.starts_with("vellum.") {
            options.take(&word, findings);
            if let ("vellum.init", Some(value), Some((at, _))) = (word.name, word.value, &mut options.init) {
                *at = (value.as_ptr() as usize - line.as_ptr() as usize) as u32;
            }
        }
    }
    if let Some(word) = words.unclosed_quote() {
        findings.push(Problem::UnclosedQuote { word: Text::new(word) });
    }
    for (cpu, belief) in options.cpus.into_iter().enumerate().filter(|(_, belief)| *belief != CpuOverride::default()) {
        findings.push(Problem::Test { cpu, belief });
    }
    options
}

/// An option of ours.
struct Known {
    /// `N` stands for the number of a CPU.
    name: &'static str,
    expected: &'static str,
    /// What a value that makes no sense leads to.
    instead: &'static str,
    set: fn(&mut Options, usize, &str) -> Outcome,
}

/// What became of a value.
enum Outcome {
    Set,
    Replaced,
    Bad { stays: bool },
}

fn set<T>(slot: &mut Option<T>, value: Option<T>) -> Outcome {
    match (slot.is_some(), value) {
        (stays, None) => Outcome::Bad { stays },
        (was_set, value) => {
            *slot = value;
            if was_set { Outcome::Replaced } else { Outcome::Set }
        }
    }
}

const BELIEVED: &str = "what the CPU says of itself is believed";

const KNOWN: [Known; 25] = [
    Known {
        name: "arm64.pagesize",
        expected: "4k, 16k or 64k",
        instead: "the default is used",
        set: |options, _, value| set(&mut options.page_size, page_size(value)),
    },
    Known {
        name: "vellum.exit",
        expected: "semihosting, psci or monitor",
        instead: "psci is used",
        set: |options, _, value| set(&mut options.exit, word(value, &EXITS)),
    },
    Known {
        name: "vellum.report",
        expected: "text or json",
        instead: "the report is text",
        set: |options, _, value| set(&mut options.report, word(value, &REPORTS)),
    },
    Known {
        name: "vellum.vabits",
        expected: "a number from 36 to 52",
        instead: "the largest that is allowed is used",
        set: |options, _, value| set(&mut options.virtual_bits, number(value, 36, 52)),
    },
    Known {
        name: "vellum.late",
        expected: "a number of CPUs from 0 to 7",
        instead: "no CPU is held back",
        set: |options, _, value| set(&mut options.late_cpus, number(value, 0, MAX_CPUS as u32 - 1)),
    },
    Known {
        name: "rodata",
        expected: "on, full, noalias or off",
        instead: "on is used",
        set: |options, _, value| set(&mut options.rodata, word(value, &RODATA)),
    },
    Known {
        name: "vellum.linearmap",
        expected: "largest, blocks or pages",
        instead: "the largest leaves are used",
        set: |options, _, value| set(&mut options.linear_map, word(value, &LEAVES)),
    },
    Known {
        name: "vellum.pagealloc",
        expected: "plain or debug",
        instead: "plain is used",
        set: |options, _, value| set(&mut options.page_allocator, word(value, &ALLOCATORS)),
    },
    Known {
        name: "vellum.bbm",
        expected: "a level from 0 to 3",
        instead: BELIEVED,
        set: |options, _, value| set(&mut options.bbm, bbm_level(value)),
    },
    Known {
        name: "vellum.conflicts",
        expected: "survive or report",
        instead: "they are survived",
        set: |options, _, value| set(&mut options.conflicts, word(value, &CONFLICTS)),
    },
    Known {
        name: "vellum.trust-el1",
        expected: "yes or no",
        instead: "what is beneath is not trusted",
        set: |options, _, value| set(&mut options.trusts_el1, word(value, &YES_OR_NO)),
    },
    Known {
        name: "vellum.exhaust",
        expected: "yes or no",
        instead: "memory is not exhausted",
        set: |options, _, value| set(&mut options.exhausts, word(value, &YES_OR_NO)),
    },
    Known {
        name: "vellum.stress",
        expected: "a number of operations from 0 to 4294967295",
        instead: "there is no stress",
        set: |options, _, value| set(&mut options.stress, number(value, 0, u32::MAX)),
    },
    Known {
        name: "vellum.stress-kind",
        expected: "mixed, kfence or conflicts",
        instead: "it is mixed",
        set: |options, _, value| set(&mut options.stress_kind, word(value, &STRESSES)),
    },
    Known {
        name: "vellum.measure",
        expected: "linear, secret or nothing",
        instead: "nothing is measured",
        set: |options, _, value| set(&mut options.measure, word(value, &MEASURES)),
    },
    Known {
        name: "vellum.check-areas",
        expected: "yes or no",
        instead: "areas are not compared with page tables",
        set: |options, _, value| set(&mut options.checks_areas, word(value, &YES_OR_NO)),
    },
    Known {
        name: "vellum.seed",
        expected: "a number from 0 to 4294967295",
        instead: "1 is used",
        set: |options, _, value| set(&mut options.seed, number(value, 0, u32::MAX)),
    },
    Known {
        name: "vellum.init",
        expected: "a program and its arguments",
        instead: "none is run",
        // Where in the line it is, `parse` says.
        set: |options, _, value| set(&mut options.init, (!value.is_empty()).then_some((0, value.len() as u32))),
    },
    Known {
        name: "vellum.folio",
        expected: "never, advised, group, linux or block",
        instead: "they are blocks, or groups where a block has no room",
        set: |options, _, value| set(&mut options.folios, word(value, &FOLIOS)),
    },
    Known {
        name: "vellum.withhold",
        expected: "a size such as 64M or 1G",
        instead: "no memory is withheld",
        set: |options, _, value| set(&mut options.withheld_bytes, size(value)),
    },
    Known {
        name: "vellum.cpuN.granules",
        expected: "a list of 4k, 16k and 64k",
        instead: BELIEVED,
        set: |options, cpu, value| set(&mut options.cpus[cpu].granules, page_sizes(value)),
    },
    Known {
        name: "vellum.cpuN.bbm",
        expected: "a level from 0 to 3",
        instead: BELIEVED,
        set: |options, cpu, value| set(&mut options.cpus[cpu].bbm, bbm_level(value)),
    },
    Known {
        name: "vellum.cpuN.pabits",
        expected: "32, 36, 40, 42, 44, 48 or 52",
        instead: BELIEVED,
        set: |options, cpu, value| set(&mut options.cpus[cpu].physical_bits, physical_bits(value)),
    },
    Known {
        name: "vellum.cpuN.silent",
        expected: "yes or no",
        instead: "the CPU announces itself",
        set: |options, cpu, value| set(&mut options.cpus[cpu].is_silent, word(value, &YES_OR_NO)),
    },
    Known {
        name: "vellum.cpuN.deaf",
        expected: "yes or no",
        instead: "the CPU answers",
        set: |options, cpu, value| set(&mut options.cpus[cpu].is_deaf, word(value, &YES_OR_NO)),
    },
];

impl Known {
    /// The number of the CPU that `name` is about, if it is this option's name; 0 for one that is about no CPU.
    fn matches(&self, name: &str) -> Option<usize> {
        match self.name.split_once('N') {
            None => (name == self.name).then_some(0),
            Some((before, after)) => digits(name.strip_prefix(before)?.strip_suffix(after)?),
        }
    }
}

impl Options {
    fn take<'a>(&mut self, word: &Word<'a>, findings: &mut Findings<'a>) {
        let option = Text::new(word.name);
        let found = KNOWN.iter().find_map(|known| Some((known, known.matches(word.name)?)));
        let Some((known, cpu)) = found else {
            let nearest = problem::nearest(word.name, KNOWN.iter().map(|known| known.name));
            return findings.push(Problem::Unknown { option, nearest });
        };
        if cpu >= MAX_CPUS {
            return findings.push(Problem::NoSuchCpu { option });
        }
        match (known.set)(self, cpu, word.value.unwrap_or("")) {
            Outcome::Set => {}
            Outcome::Replaced => findings.push(Problem::Repeated { option }),
            Outcome::Bad { stays } => {
                let instead = if stays { "the earlier value stays" } else { known.instead };
                let value = word.value.map(Text::new);
                findings.push(Problem::BadValue { option, value, expected: known.expected, instead });
            }
        }
    }
}

const EXITS: [(&str, Exit); 3] = [("psci", Exit::Psci), ("semihosting", Exit::Semihosting), ("monitor", Exit::Monitor)];
const REPORTS: [(&str, Report); 2] = [("text", Report::Text), ("json", Report::Json)];
const RODATA: [(&str, Rodata); 4] =
    [("on", Rodata::On), ("full", Rodata::On), ("noalias", Rodata::NoAlias), ("off", Rodata::Off)];
const FOLIOS: [(&str, Folios); 5] = [
    ("never", Folios::Never),
    ("advised", Folios::Advised),
    ("group", Folios::Group),
    ("linux", Folios::Linux),
    ("block", Folios::Block),
];
const LEAVES: [(&str, LinearLeaves); 3] =
    [("largest", LinearLeaves::Largest), ("blocks", LinearLeaves::Blocks), ("pages", LinearLeaves::Pages)];
const ALLOCATORS: [(&str, PageAllocator); 2] = [("plain", PageAllocator::Plain), ("debug", PageAllocator::Debug)];
const CONFLICTS: [(&str, Conflicts); 2] = [("survive", Conflicts::Survive), ("report", Conflicts::Report)];
const STRESSES: [(&str, StressKind); 3] =
    [("mixed", StressKind::Mixed), ("kfence", StressKind::Kfence), ("conflicts", StressKind::Conflicts)];
const MEASURES: [(&str, Measure); 4] = [
    ("linear", Measure::Linear),
    ("secret", Measure::Secret),
    ("masked", Measure::Masked),
    ("nothing", Measure::Nothing),
];
const YES_OR_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

#[cfg(test)]
mod tests {
    use super::KNOWN;

    #[test]
    fn every_option_is_documented() {
        let page = include_str!("../../../docs/options.md");
        let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split("=`").next());
        assert!(listed.eq(KNOWN.iter().map(|known| known.name)));
    }
}
