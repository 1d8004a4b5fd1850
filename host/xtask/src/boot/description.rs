//! A machine from a text: what each CPU says of itself, and what else the monitor makes, for its
//! command line.
//!
//! ```text
//! [[cpu]] cpus = [1, 2]  bbm = 0   ─▶  monitor.cpu1.mmfr2=0x0/0xf0000000000000 monitor.cpu2.mmfr2=…
//! ```
//! Tables are carried out in order, so a later one changes what an earlier one said of a CPU. `bare/monitor/machines` has
//! ready-made ones.

use std::{fs, ops::Range, path::Path};

use serde::Deserialize;
use toml::Spanned;

use crate::outcome::Failure;

/// CPUs that the monitor supports.
const MAX_CPUS: usize = 8;
/// Addresses that a table may list.
const MAX_ADDRESSES: usize = 8;

/// A fault in the text: where, and what is wrong.
type Fault = (Range<usize>, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    #[serde(default)]
    cpu: Vec<Entry>,
    conflicts: Option<Conflicts>,
    realm: Option<Realm>,
}

/// A table about CPUs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    cpus: Spanned<Numbers>,
    midr: Option<u32>,
    revidr: Option<u32>,
    mmfr0: Option<u64>,
    mmfr1: Option<u64>,
    mmfr2: Option<u64>,
    bbm: Option<Spanned<u64>>,
    granules: Option<Spanned<Vec<String>>>,
    lpa2: Option<bool>,
    hafdbs: Option<Spanned<u64>>,
    physical_bits: Option<Spanned<u64>>,
    late: Option<Spanned<bool>>,
}

/// The CPUs that a table is about: `"all"`, or those of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Numbers {
    Word(String),
    List(Vec<usize>),
}

/// TLB conflict aborts.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Conflicts {
    seed: Option<u64>,
    rate: Option<Spanned<u64>>,
    after: Option<u64>,
    burst: Option<Spanned<u64>>,
    merciless: bool,
    stage2: bool,
    addresses: Option<Spanned<Vec<u64>>>,
}

/// A realm, and its host's answers.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Realm {
    ipa_bits: Option<Spanned<u64>>,
    devices: Option<Spanned<String>>,
    step: Option<Spanned<u64>>,
    refuse: Option<Spanned<u64>>,
    after: Option<u64>,
    seed: Option<u64>,
    addresses: Option<Spanned<Vec<u64>>>,
    error: bool,
}

/// What one CPU says of itself.
#[derive(Clone, Copy, Default)]
struct Cpu {
    midr: Option<u32>,
    revidr: Option<u32>,
    /// ID_AA64MMFR0_EL1 to ID_AA64MMFR2_EL1: values, and masks of the bits that they replace.
    mmfr: [(u64, u64); 3],
    is_late: bool,
}

/// The monitor's words for the description at `path`, of `cpus` CPUs.
pub(crate) fn words(path: &Path, cpus: u32) -> Result<Vec<String>, Failure> {
    let refused = |what: String| Failure::bad_input(format!("{}{what}; nothing was booted", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(format!(": {error}")))?;
    parse(&text, cpus as usize).map_err(|(at, what)| {
        let before = &text[..at.start.min(text.len())];
        // Of a value, its key stands before it.
        let line = before.rsplit('\n').next().unwrap_or_default();
        let key = line.split_once('=').map_or(String::new(), |(key, _)| format!("`{}`: ", key.trim()));
        refused(format!(":{}: {key}{what}", 1 + before.matches('\n').count()))
    })
}

/// The words for the first `cpus` CPUs, and for everything else.
fn parse(text: &str, cpus: usize) -> Result<Vec<String>, Fault> {
    let read = toml::from_str(text);
    let description: Description =
        read.map_err(|error: toml::de::Error| (error.span().unwrap_or(0..0), error.message().replace('\n', " ")))?;
    let mut described = [Cpu::default(); MAX_CPUS];
    for entry in &description.cpu {
        let numbers = match entry.cpus.get_ref() {
            Numbers::Word(word) if word == "all" => (0..MAX_CPUS).collect(),
            Numbers::List(list) if !list.is_empty() && list.iter().all(|number| *number < MAX_CPUS) => list.clone(),
            _ => return Err((entry.cpus.span(), "expected \"all\" or a list of numbers from 0 to 7".into())),
        };
        if let (Some(late), Numbers::List(list)) = (&entry.late, entry.cpus.get_ref()) {
            check(late, |is_late| !is_late || !list.contains(&0), "CPU 0 boots, expected another one")?;
        }
        numbers.into_iter().try_for_each(|number| described[number].take(entry))?;
    }
    let of_cpus = described.iter().take(cpus).enumerate().flat_map(|(number, cpu)| cpu.words(number));
    let conflicts = description.conflicts.as_ref().map(Conflicts::words).transpose()?;
    let realm = description.realm.as_ref().map(Realm::words).transpose()?;
    Ok(of_cpus.chain(conflicts.into_iter().chain(realm).flatten()).collect())
}

fn check<'v, T>(value: &'v Spanned<T>, is_good: impl Fn(&T) -> bool, expected: &str) -> Result<&'v T, Fault> {
    let value_itself = value.get_ref();
    is_good(value_itself).then_some(value_itself).ok_or_else(|| (value.span(), expected.to_owned()))
}

/// A number of this range, if there is one.
fn within(value: &Option<Spanned<u64>>, least: u64, most: u64) -> Result<Option<u64>, Fault> {
    let expected = format!("expected a number from {least} to {most}");
    value.as_ref().map(|value| check(value, |number| (least..=most).contains(number), &expected).copied()).transpose()
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
        words.extend(self.is_late.then(|| format!("{start}.late")));
        words
    }

    /// Has bits of ID_AA64MMFR`register`_EL1 read as `value`.
    fn lay(&mut self, register: usize, value: u64, mask: u64) {
        let (old, covered) = self.mmfr[register];
        self.mmfr[register] = (old & !mask | value & mask, covered | mask);
    }

    /// Sets the 4-bit field that starts at bit `low`.
    fn field(&mut self, register: usize, low: u32, value: u64) {
        self.lay(register, value << low, 0xf << low);
    }

    /// Takes over what a table says. Whole registers come first: a field beside one is in it.
    fn take(&mut self, entry: &Entry) -> Result<(), Fault> {
        self.midr = entry.midr.or(self.midr);
        self.revidr = entry.revidr.or(self.revidr);
        self.is_late = entry.late.as_ref().map_or(self.is_late, |late| *late.get_ref());
        for (register, value) in [entry.mmfr0, entry.mmfr1, entry.mmfr2].into_iter().enumerate() {
            value.into_iter().for_each(|value| self.lay(register, value, u64::MAX));
        }
        within(&entry.bbm, 0, 3)?.into_iter().for_each(|level| self.field(2, 52, level));
        within(&entry.hafdbs, 0, 3)?.into_iter().for_each(|updates| self.field(1, 0, updates));
        if let Some(bits) = &entry.physical_bits {
            const RANGES: [u64; 7] = [32, 36, 40, 42, 44, 48, 52];
            let range = RANGES.iter().position(|bits_of_range| bits_of_range == bits.get_ref());
            let range = range.ok_or_else(|| (bits.span(), format!("expected one of {RANGES:?}")))?;
            self.field(0, 0, range as u64);
        }
        if let Some(sizes) = &entry.granules {
            // The field of a granule that is there stays: it may tell of LPA2.
            const FIELDS: [(&str, u32, u64); 3] = [("4k", 28, 0xf), ("16k", 20, 0), ("64k", 24, 0xf)];
            let is_known = |size: &String| FIELDS.iter().any(|(known, ..)| known == size);
            let are_known = |sizes: &Vec<String>| !sizes.is_empty() && sizes.iter().all(is_known);
            let sizes = check(sizes, are_known, r#"expected a list of "4k", "16k" and "64k""#)?;
            for (_, low, absent) in FIELDS.iter().filter(|(size, ..)| !sizes.iter().any(|one| one == size)) {
                self.field(0, *low, *absent);
            }
        }
        if let Some(has_lpa2) = entry.lpa2 {
            // A granule that was taken away stays away.
            for (low, absent, without) in [(28, 0xf, 0), (20, 0, 1)] {
                let (laid, mask) = self.mmfr[0];
                if mask >> low & 0xf == 0 || laid >> low & 0xf != absent {
                    self.field(0, low, without + u64::from(has_lpa2));
                }
            }
        }
        Ok(())
    }
}

/// Words of a table: numbers that are there, words without a number that are set, addresses. The
/// seed stands among them always: without any word there would be no conflicts, and no realm.
fn table(
    name: &str,
    seed: Option<u64>,
    numbers: [(&str, Option<u64>); 4],
    set: [(&str, bool); 2],
    addresses: &Option<Spanned<Vec<u64>>>,
) -> Result<Vec<String>, Fault> {
    let fits = |list: &Vec<u64>| list.len() <= MAX_ADDRESSES;
    let addresses =
        addresses.as_ref().map(|list| check(list, fits, "expected a list of at most 8 addresses")).transpose()?;
    let addresses = addresses.into_iter().flatten().map(|address| ("address", Some(*address)));
    let numbers = addresses.chain(numbers).chain([("seed", seed.or(Some(1)))]);
    let numbers = numbers.filter_map(|(word, number)| Some(format!("monitor.{name}.{word}={:#x}", number?)));
    let set = set.into_iter().filter(|(_, is_set)| *is_set).map(|(word, _)| format!("monitor.{name}.{word}"));
    Ok(numbers.chain(set).collect())
}

impl Conflicts {
    fn words(&self) -> Result<Vec<String>, Fault> {
        let (rate, burst) = (within(&self.rate, 1, u64::MAX)?, within(&self.burst, 1, u64::MAX)?);
        let numbers = [("rate", rate), ("after", self.after), ("burst", burst), ("", None)];
        let set = [("merciless", self.merciless), ("stage2", self.stage2)];
        table("conflicts", self.seed, numbers, set, &self.addresses)
    }
}

impl Realm {
    fn words(&self) -> Result<Vec<String>, Fault> {
        let (step, refuse) = (within(&self.step, 1, u64::MAX)?, within(&self.refuse, 1, u64::MAX)?);
        let bits = within(&self.ipa_bits, 33, 48)?;
        let is_known = |devices: &String| ["unprotected", "both"].contains(&devices.as_str());
        let devices = self.devices.as_ref().map(|it| check(it, is_known, r#"expected "unprotected" or "both""#));
        let is_protected = devices.transpose()?.is_some_and(|devices| devices == "both");
        let numbers = [("bits", bits), ("step", step), ("refuse", refuse), ("after", self.after)];
        table(
            "realm",
            self.seed,
            numbers,
            [("protected-devices", is_protected), ("error", self.error)],
            &self.addresses,
        )
    }
}

#[cfg(test)]
mod tests {
    use seed::feed::{damaged, feed};

    use super::*;
    use crate::cargo;

    fn line(text: &str) -> String {
        parse(text, MAX_CPUS).unwrap_or_else(|fault| panic!("{text}: {fault:?}")).join(" ")
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
    fn conflicts_and_a_realm_become_words() {
        for (text, words) in [
            ("[conflicts]", "conflicts.seed=0x1"),
            (
                "[conflicts]\nseed = 9\nrate = 100\nburst = 2\nmerciless = true\nstage2 = false\naddresses = [0x1000]",
                "conflicts.address=0x1000 conflicts.rate=0x64 conflicts.burst=0x2 conflicts.seed=0x9 conflicts.merciless",
            ),
            ("[realm]", "realm.seed=0x1"),
            ("[realm]\nseed = 0x2\ndevices = \"unprotected\"\nerror = false", "realm.seed=0x2"),
            (
                "[realm]\nseed = 3\nipa_bits = 48\ndevices = \"both\"\nstep = 4\nrefuse = 5\nafter = 6\nerror = true\n\
                 addresses = [0x1000, 0x2000]",
                "realm.address=0x1000 realm.address=0x2000 realm.bits=0x30 realm.step=0x4 realm.refuse=0x5 \
                 realm.after=0x6 realm.seed=0x3 realm.protected-devices realm.error",
            ),
        ] {
            assert_eq!(line(text).replace("monitor.", ""), words);
        }
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
            ("[[cpu]]\ncpus = [0]\nbmm = 2\n", 3, "unknown field `bmm`, expected one of `cpus`, `midr`"),
            ("[[cpu]]\ncpus = [0]\nbbm = 4\n", 3, "`bbm`: expected a number from 0 to 3"),
            ("[[cpu]]\ncpus = [0]\nbbm = -1\n", 3, "`bbm`: invalid value: integer `-1`"),
            ("[[cpu]]\ncpus = [8]\n", 2, "`cpus`: expected \"all\" or a list of numbers from 0 to 7"),
            ("[[cpu]]\ncpus = []\n", 2, "`cpus`: expected"),
            ("[[cpu]]\nbbm = 2\n", 1, "missing field `cpus`"),
            ("[cpu]\ncpus = [0]\n", 1, "invalid type: map, expected a sequence"),
            ("[machine]\n", 1, "unknown field `machine`, expected one of `cpu`, `conflicts`, `realm`"),
            ("[realm]\nipa_bits = 32\n", 2, "`ipa_bits`: expected a number from 33 to 48"),
            ("[realm]\ndevices = \"none\"\n", 2, "`devices`: expected \"unprotected\" or \"both\""),
            ("[conflicts]\nrate = 0\n", 2, "`rate`: expected a number from 1"),
            ("[conflicts]\naddresses = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n", 2, "expected a list of at most 8 addresses"),
            ("[[cpu]]\ncpus = \"all\"\ngranules = [\"8k\"]\n", 3, "expected a list of \"4k\", \"16k\" and \"64k\""),
            ("[[cpu]]\ncpus = [0]\nphysical_bits = 43\n", 3, "`physical_bits`: expected one of [32, 36,"),
            ("[[cpu]]\ncpus = [1, 0]\nlate = true\n", 3, "`late`: CPU 0 boots, expected another one"),
            ("[[cpu]\n", 1, "unclosed"),
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
            if let Err((at, what)) = parse(&text, MAX_CPUS) {
                assert!(at.start <= text.len() && !what.is_empty() && !what.contains('\n'), "{at:?}: {what}");
            }
        };
        feed("fuzz_machines", |random| damaged(&random.pick(&texts).lines().collect::<Vec<_>>(), random), read);
    }
}
