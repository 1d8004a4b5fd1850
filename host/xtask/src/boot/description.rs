//! A machine from a text: what each CPU is to say of itself, and what else the monitor is to make, for its command line.
//!
//! ```text
//! [[cpu]] cpus = [1, 2]  bbm = 0   ─▶  monitor.cpu1.mmfr2=0x0/0xf0000000000000 monitor.cpu2.mmfr2=…
//! ```
//! Tables are carried out in order, so a later one changes what an earlier one said of a CPU. `bare/monitor/machines` has
//! ready-made ones.

use std::{fs, ops::Range, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

mod tables;

use crate::outcome::Failure;
use tables::{conflict_words, integer, realm_words};

/// CPUs that the monitor supports.
const MAX_CPUS: usize = 8;

/// What one CPU is to say of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Cpu {
    midr: Option<u64>,
    revidr: Option<u64>,
    /// ID_AA64MMFR0_EL1 to ID_AA64MMFR2_EL1: values, and masks of the bits that they replace.
    mmfr: [(u64, u64); 3],
    is_late: bool,
}

/// A fault in the text: where, and what is wrong.
type Fault = (Range<usize>, String);

/// The monitor's words for the description at `path`, of `cpus` CPUs.
pub(crate) fn words(path: &Path, cpus: u32) -> Result<Vec<String>, Failure> {
    let refused = |what: String| Failure::bad_input(format!("{}{what}; nothing was booted", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(format!(": {error}")))?;
    let (described, more) = parse(&text).map_err(|(at, what)| {
        let line = 1 + text[..at.start.min(text.len())].matches('\n').count();
        refused(format!(":{line}: {what}"))
    })?;
    let of_cpus = described.iter().take(cpus as usize).enumerate().flat_map(|(number, cpu)| cpu.words(number));
    Ok(of_cpus.chain(more).collect())
}

impl Cpu {
    fn words(&self, number: usize) -> Vec<String> {
        let start = format!("monitor.cpu{number}");
        let mut words = Vec::new();
        words.extend(self.midr.map(|midr| format!("{start}.midr={midr:#x}")));
        words.extend(self.revidr.map(|revidr| format!("{start}.revidr={revidr:#x}")));
        for (register, (value, mask)) in self.mmfr.iter().enumerate().filter(|(_, (_, mask))| *mask != 0) {
            words.push(format!("{start}.mmfr{register}={value:#x}/{mask:#x}"));
        }
        if self.is_late {
            words.push(format!("{start}.late"));
        }
        words
    }

    /// Has bits of ID_AA64MMFR`register`_EL1 read as `value`.
    fn lay(&mut self, register: usize, value: u64, mask: u64) {
        let (old, covered) = self.mmfr[register];
        self.mmfr[register] = (old & !mask | value & mask, covered | mask);
    }

    /// The same with the 4-bit field that starts at bit `low`.
    fn field(&mut self, register: usize, low: u32, value: u64) {
        self.lay(register, value << low, 0xf << low);
    }
}

/// The CPUs, and the words for everything else.
fn parse(text: &str) -> Result<([Cpu; MAX_CPUS], Vec<String>), Fault> {
    let document = DeTable::parse(text)
        .map_err(|error| (error.span().unwrap_or(0..0), format!("{}, expected TOML", error.message())))?;
    let mut cpus = [Cpu::default(); MAX_CPUS];
    let mut more = Vec::new();
    for (key, value) in document.get_ref().iter() {
        let tables = match (key.get_ref().as_ref(), value.get_ref()) {
            ("cpu", DeValue::Array(tables)) => tables,
            ("cpu", _) => return Err((value.span(), "`cpu`: expected tables, each under [[cpu]]".into())),
            (name @ ("conflicts" | "realm"), entries) => {
                let DeValue::Table(entries) = entries else {
                    return Err((value.span(), format!("`{name}`: expected a table under [{name}]")));
                };
                more.extend(if name == "realm" { realm_words(entries)? } else { conflict_words(entries)? });
                continue;
            }
            (other, _) => {
                return Err((key.span(), format!("`{other}`: unknown, expected [[cpu]], [conflicts] or [realm]")));
            }
        };
        for table in tables.iter() {
            let DeValue::Table(entries) = table.get_ref() else {
                return Err((table.span(), "`cpu`: expected tables, each under [[cpu]]".into()));
            };
            let whom = entries.get("cpus").ok_or((table.span(), "[[cpu]] without `cpus`".to_string()))?;
            for number in numbers(whom)? {
                // Whole registers first: a field beside one is in it.
                let is_register = |key: &str| key.starts_with("mmfr");
                let (registers, fields): (Vec<_>, Vec<_>) = entries
                    .iter()
                    .filter(|(key, _)| key.get_ref() != "cpus")
                    .partition(|(key, _)| is_register(key.get_ref()));
                for (key, value) in registers.into_iter().chain(fields) {
                    take(&mut cpus[number], key.get_ref(), value).map_err(|what| {
                        let at = if what.starts_with("unknown") { key.span() } else { value.span() };
                        (at, format!("`{}`: {what}", key.get_ref()))
                    })?;
                }
            }
            if let (Some(late), DeValue::Array(list)) = (entries.get("late"), whom.get_ref())
                && late.get_ref().as_bool() == Some(true)
                && list.iter().any(|number| integer(number.get_ref()) == Some(0))
            {
                return Err((late.span(), "`late`: CPU 0 boots, expected another one".into()));
            }
        }
    }
    Ok((cpus, more))
}

/// The CPUs that a table is about.
fn numbers(value: &Spanned<DeValue>) -> Result<Vec<usize>, Fault> {
    let wrong = || (value.span(), format!("`cpus`: expected \"all\" or a list of numbers from 0 to {}", MAX_CPUS - 1));
    match value.get_ref() {
        DeValue::String(text) if text == "all" => Ok((0..MAX_CPUS).collect()),
        DeValue::Array(list) if !list.is_empty() => {
            let number = |item: &Spanned<DeValue>| integer(item.get_ref()).filter(|number| *number < MAX_CPUS as u64);
            list.iter().map(|item| number(item).map(|number| number as usize).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

const KEYS: &str = "midr, revidr, mmfr0, mmfr1, mmfr2, bbm, granules, lpa2, hafdbs, physical_bits, late";

/// Takes one thing that is said of a CPU; an error says what was expected.
fn take(cpu: &mut Cpu, key: &str, value: &Spanned<DeValue>) -> Result<(), String> {
    let value = value.get_ref();
    let up_to = |largest: u64| {
        let number = integer(value).filter(|number| *number <= largest);
        number.ok_or_else(|| format!("expected a number from 0 to {largest:#x}"))
    };
    match key {
        "midr" => cpu.midr = Some(up_to(0xffff_ffff)?),
        "revidr" => cpu.revidr = Some(up_to(0xffff_ffff)?),
        "mmfr0" => cpu.lay(0, up_to(u64::MAX)?, u64::MAX),
        "mmfr1" => cpu.lay(1, up_to(u64::MAX)?, u64::MAX),
        "mmfr2" => cpu.lay(2, up_to(u64::MAX)?, u64::MAX),
        "bbm" => cpu.field(2, 52, up_to(3)?),
        "hafdbs" => cpu.field(1, 0, up_to(3)?),
        "granules" => {
            let sizes = sizes(value).ok_or(r#"expected a list of "4k", "16k" and "64k""#)?;
            // Where a size is there, the field stays what it is: it may tell of LPA2.
            for (size, low, absent) in [("4k", 28, 0xf), ("16k", 20, 0), ("64k", 24, 0xf)] {
                if !sizes.contains(&size) {
                    cpu.field(0, low, absent);
                }
            }
        }
        "lpa2" => {
            let has_lpa2 = value.as_bool().ok_or("expected true or false")?;
            // A granule that was taken away stays away.
            for (low, absent, without) in [(28, 0xf, 0), (20, 0, 1)] {
                let (laid, mask) = cpu.mmfr[0];
                if mask >> low & 0xf == 0 || laid >> low & 0xf != absent {
                    cpu.field(0, low, without + u64::from(has_lpa2));
                }
            }
        }
        "physical_bits" => {
            let sizes = [32, 36, 40, 42, 44, 48, 52];
            let range = integer(value).and_then(|bits| sizes.iter().position(|size| *size == bits));
            cpu.field(0, 0, range.ok_or_else(|| format!("expected one of {sizes:?}"))? as u64);
        }
        "late" => cpu.is_late = value.as_bool().ok_or("expected true or false")?,
        _ => return Err(format!("unknown, expected cpus, {KEYS}")),
    }
    Ok(())
}

fn sizes<'v>(value: &'v DeValue) -> Option<Vec<&'v str>> {
    let known = |item: &'v Spanned<DeValue>| item.get_ref().as_str().filter(|text| ["4k", "16k", "64k"].contains(text));
    value.as_array().filter(|list| !list.is_empty())?.iter().map(known).collect()
}

#[cfg(test)]
mod tests {
    use seed::feed::{damaged, feed};

    use super::*;
    use crate::cargo;

    fn line(text: &str) -> String {
        let (cpus, more) = parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        let of_cpus = cpus.iter().enumerate().flat_map(|(number, cpu)| cpu.words(number));
        of_cpus.chain(more).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_key_becomes_words() {
        for (entry, words) in [
            ("midr = 0x410fd823", ".midr=0x410fd823"),
            ("revidr = 7", ".revidr=0x7"),
            ("mmfr0 = 0x1124", ".mmfr0=0x1124/0xffffffffffffffff"),
            ("mmfr2 = 0x8000000000000000", ".mmfr2=0x8000000000000000/0xffffffffffffffff"),
            ("bbm = 3", ".mmfr2=0x30000000000000/0xf0000000000000"),
            ("hafdbs = 0", ".mmfr1=0x0/0xf"),
            ("granules = [\"4k\"]", ".mmfr0=0xf000000/0xff00000"),
            ("granules = [\"16k\", \"64k\"]", ".mmfr0=0xf0000000/0xf0000000"),
            ("lpa2 = false", ".mmfr0=0x100000/0xf0f00000"),
            ("lpa2 = true", ".mmfr0=0x10200000/0xf0f00000"),
            ("physical_bits = 44", ".mmfr0=0x4/0xf"),
            ("late = true", ".late"),
        ] {
            assert_eq!(line(&format!("[[cpu]]\ncpus = [3]\n{entry}\n")), format!("monitor.cpu3{words}"), "{entry}");
        }
    }

    #[test]
    fn conflicts_become_words() {
        assert_eq!(line("[conflicts]\n"), "monitor.conflicts.seed=0x1");
        assert_eq!(
            line(
                "[conflicts]\nseed = 9\nrate = 100\nburst = 2\nmerciless = true\nstage2 = false\naddresses = [0x1000]\n"
            ),
            "monitor.conflicts.address=0x1000 monitor.conflicts.burst=0x2 monitor.conflicts.merciless \
             monitor.conflicts.rate=0x64 monitor.conflicts.seed=0x9"
        );
    }

    #[test]
    fn a_realm_becomes_words() {
        assert_eq!(line("[realm]\n"), "monitor.realm.seed=0x1");
        assert_eq!(line("[realm]\nseed = 0x2\ndevices = \"unprotected\"\nerror = false"), "monitor.realm.seed=0x2");
        assert_eq!(
            line(
                "[realm]\nseed = 3\nipa_bits = 48\ndevices = \"both\"\nstep = 4\nrefuse = 5\nafter = 6\nerror = true\n\
                 addresses = [0x1000, 0x2000]\n"
            ),
            "monitor.realm.address=0x1000 monitor.realm.address=0x2000 monitor.realm.after=0x6 \
             monitor.realm.protected-devices monitor.realm.error monitor.realm.bits=0x30 monitor.realm.refuse=0x5 \
             monitor.realm.seed=0x3 monitor.realm.step=0x4"
        );
    }

    #[test]
    fn later_tables_change_what_earlier_ones_said() {
        let text = "[[cpu]]\ncpus = \"all\"\nbbm = 2\n[[cpu]]\ncpus = [0]\nbbm = 0\ngranules = [\"4k\", \"64k\"]\n\
                    [[cpu]]\ncpus = [0]\nlpa2 = false\n";
        let line = line(text);
        assert!(
            line.starts_with("monitor.cpu0.mmfr0=0x0/0xf0f00000 monitor.cpu0.mmfr2=0x0/0xf0000000000000 "),
            "{line}"
        );
        assert!(line.ends_with("monitor.cpu7.mmfr2=0x20000000000000/0xf0000000000000"), "{line}");
    }

    #[test]
    fn a_field_counts_beside_the_register_that_it_is_in() {
        for entries in ["bbm = 2\nmmfr2 = 0xf0000000000001", "mmfr2 = 0xf0000000000001\nbbm = 2"] {
            let expected = "monitor.cpu1.mmfr2=0x20000000000001/0xffffffffffffffff";
            assert_eq!(line(&format!("[[cpu]]\ncpus = [1]\n{entries}\n")), expected, "{entries}");
        }
    }

    #[test]
    fn faults_have_their_line_and_what_was_expected() {
        let folder = std::env::temp_dir().join(format!("vellum-description-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join("machine.toml");
        for (text, line, part) in [
            ("[[cpu]]\ncpus = [0]\nbmm = 2\n", 3, "`bmm`: unknown, expected cpus, midr"),
            ("[[cpu]]\ncpus = [0]\nbbm = 4\n", 3, "`bbm`: expected a number from 0 to 0x3"),
            ("[[cpu]]\ncpus = [0]\nbbm = -1\n", 3, "`bbm`: expected a number"),
            ("[[cpu]]\ncpus = [8]\n", 2, "`cpus`: expected \"all\" or a list of numbers from 0 to 7"),
            ("[[cpu]]\ncpus = []\n", 2, "`cpus`: expected"),
            ("[[cpu]]\nbbm = 2\n", 1, "[[cpu]] without `cpus`"),
            ("[cpu]\ncpus = [0]\n", 1, "expected tables, each under [[cpu]]"),
            ("[machine]\n", 1, "`machine`: unknown, expected [[cpu]], [conflicts] or [realm]"),
            ("[[realm]]\n", 1, "`realm`: expected a table under [realm]"),
            ("[realm]\nipa_bits = 32\n", 2, "`ipa_bits`: expected a number from 33 to 48"),
            ("[realm]\nstep = 0\n", 2, "`step`: expected a number above 0"),
            ("[realm]\ndevices = \"none\"\n", 2, "`devices`: expected \"unprotected\" or \"both\""),
            ("[realm]\nrate = 3\n", 2, "`rate`: unknown, expected ipa_bits, devices, step, refuse"),
            ("[[conflicts]]\n", 1, "`conflicts`: expected a table"),
            ("[conflicts]\nrate = 0\n", 2, "`rate`: expected a number above 0"),
            ("[conflicts]\nmercy = 0\n", 2, "`mercy`: unknown, expected seed, rate"),
            ("[conflicts]\naddresses = [\"x\"]\n", 2, "expected a list of addresses"),
            ("[[cpu]]\ncpus = \"all\"\ngranules = [\"8k\"]\n", 3, "expected a list of \"4k\", \"16k\" and \"64k\""),
            ("[[cpu]]\ncpus = [0]\nphysical_bits = 43\n", 3, "expected one of [32, 36,"),
            ("[[cpu]]\ncpus = [0]\nlate = 1\n", 3, "`late`: expected true or false"),
            ("[[cpu]]\ncpus = [1, 0]\nlate = true\n", 3, "`late`: CPU 0 boots, expected another one"),
            ("[[cpu]\n", 1, "expected TOML"),
        ] {
            fs::write(&path, text).expect("a file for the test");
            let failure = words(&path, 8).expect_err(text);
            assert!(failure.line.contains(&format!("machine.toml:{line}: ")), "{failure}");
            assert!(failure.line.contains(part) && !failure.line.contains('\n'), "{failure}");
        }
        fs::remove_dir_all(&folder).expect("the folder of the test");
        assert!(words(&path, 8).is_err_and(|failure| failure.line.contains("nothing was booted")));
    }

    #[test]
    fn every_ready_made_machine_is_one() {
        let folder = cargo::workspace().join("bare/monitor/machines");
        let mut count = 0;
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            assert!(!words(&path, 8).expect("a machine").is_empty(), "{} says nothing", path.display());
            count += 1;
        }
        assert!(count >= 5, "{count} machines");
    }

    /// Lines of all ready-made machines in another order, some of them damaged.
    #[test]
    fn fuzz_machines_are_read_or_refused() {
        let folder = cargo::workspace().join("bare/monitor/machines");
        let files = fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry").path());
        let texts: Vec<String> = files.map(|path| fs::read_to_string(path).expect("a machine")).collect();
        let read = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            if let Err((at, what)) = parse(&text) {
                assert!(at.start <= text.len() && !what.is_empty() && !what.contains('\n'), "{at:?}: {what}");
            }
        };
        feed("fuzz_machines", |random| damaged(&random.pick(&texts).lines().collect::<Vec<_>>(), random), read);
    }
}
