//! The monitor's command line: the words up to a lone `--`. What follows it is the guest's.
//!
//! The first word that is wrong ends the machine: whoever describes a machine wants that one, or none.

use kerncore::command_line::Words;
use kerncore::text::Text;
use thiserror::Error;
use vmsa::PhysAddr;

use crate::conflicts::Settings;
use crate::identity::{Identity, Overlay};
use crate::realm::{self, Space};

/// CPUs that are supported.
pub const MAX_CPUS: usize = 8;

/// What the command line asks for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// `monitor.guest=`: where the guest's Image lies.
    pub guest: Option<PhysAddr>,
    /// `monitor.exit=semihosting`: the machine is ended by a semihosting call, which carries an exit status.
    pub has_semihosting: bool,
    /// `monitor.cpuN.…=`: what CPU N says of itself.
    pub cpus: [Identity; MAX_CPUS],
    /// `monitor.conflicts.…=`: TLB conflict aborts, if there are to be any.
    pub conflicts: Option<Settings>,
    /// `monitor.realm.…=`: the guest is a realm, and this is its host.
    pub realm: Option<realm::Settings>,
}

/// What is wrong with a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Problem<'a> {
    /// No such option.
    #[error("{0}: unknown, expected one of the monitor's options, or -- before it")]
    Unknown(Text<'a>),
    /// A value that is none, and what is expected.
    #[error("{0}={1}: expected {2}")]
    BadValue(Text<'a>, Text<'a>, &'static str),
    /// No value, and what is expected.
    #[error("{0}: expected {1}")]
    NoValue(Text<'a>, &'static str),
    /// An option about a CPU that cannot be.
    #[error("{0}: about no CPU, expected a number from 0 to {last}", last = MAX_CPUS - 1)]
    NoSuchCpu(Text<'a>),
    /// No `monitor.guest=`.
    #[error("no monitor.guest=, expected the address of the guest's Image")]
    NoGuest,
}

/// Reads the monitor's part of a command line.
pub fn parse(line: &str) -> Result<Options, Problem<'_>> {
    let mut options = Options::default();
    for word in Words::new(own_part(line)) {
        options.take(word.name, word.value)?;
    }
    if options.guest.is_none() {
        return Err(Problem::NoGuest);
    }
    Ok(options)
}

/// What stands before a lone `--`; nothing where there is none, for then no word is the monitor's.
fn own_part(line: &str) -> &str {
    split(line).0
}

/// The guest's part of a command line: what follows the first lone `--`, and all of it where there is none.
pub fn guest_part(line: &str) -> &str {
    split(line).1
}

fn split(line: &str) -> (&str, &str) {
    match (line.strip_prefix("-- "), line.split_once(" -- ")) {
        (Some(guest), _) => ("", guest),
        (None, Some(parts)) => parts,
        (None, None) => line.strip_suffix(" --").map_or(("", line), |own| (own, "")),
    }
}

/// A word as it was given.
#[derive(Clone, Copy)]
struct Given<'a> {
    name: Text<'a>,
    value: Option<&'a str>,
}

impl<'a> Given<'a> {
    fn bad(self, expected: &'static str) -> Problem<'a> {
        match self.value {
            Some(value) => Problem::BadValue(self.name, Text::new(value), expected),
            None => Problem::NoValue(self.name, expected),
        }
    }

    fn number(self) -> Result<u64, Problem<'a>> {
        self.value.and_then(hexadecimal).ok_or(self.bad("0x and up to 16 digits"))
    }

    fn count(self) -> Result<u64, Problem<'a>> {
        self.number().and_then(|count| if count == 0 { Err(self.bad("more than 0")) } else { Ok(count) })
    }

    /// That it was given, which is all that it says.
    fn flag(self) -> Result<bool, Problem<'a>> {
        if self.value.is_none() { Ok(true) } else { Err(self.bad("no value")) }
    }
}

impl Options {
    fn take<'a>(&mut self, name: &'a str, value: Option<&'a str>) -> Result<(), Problem<'a>> {
        let given = Given { name: Text::new(name), value };
        match name {
            "monitor.guest" => {
                let address = value.and_then(hexadecimal).filter(|address| address.is_multiple_of(2 << 20));
                self.guest = Some(PhysAddr::new(address.ok_or(given.bad("0x and an address on a 2 MiB boundary"))?));
            }
            "monitor.exit" => match value {
                Some("semihosting") => self.has_semihosting = true,
                Some("psci") => self.has_semihosting = false,
                _ => return Err(given.bad("semihosting or psci")),
            },
            _ if let Some(part) = name.strip_prefix("monitor.conflicts.") => {
                take_conflicts(self.conflicts.get_or_insert(Settings::DEFAULT), part, given)?;
            }
            _ if let Some(part) = name.strip_prefix("monitor.realm.") => {
                take_realm(self.realm.get_or_insert(realm::Settings::DEFAULT), part, given)?;
            }
            _ => {
                let (cpu, part) = cpu_option(name).ok_or(Problem::Unknown(given.name))?;
                take_identity(self.cpus.get_mut(cpu).ok_or(Problem::NoSuchCpu(given.name))?, part, given)?;
            }
        }
        Ok(())
    }
}

/// The parts of `monitor.cpuN.part`.
fn cpu_option(name: &str) -> Option<(usize, &str)> {
    let (number, part) = name.strip_prefix("monitor.cpu")?.split_once('.')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (number.parse().unwrap_or(usize::MAX), part))
}

fn take_identity<'a>(identity: &mut Identity, part: &str, given: Given<'a>) -> Result<(), Problem<'a>> {
    let word = || given.value.and_then(hexadecimal).filter(|word| word >> 32 == 0);
    let word = || word().ok_or(given.bad("0x and up to 8 digits"));
    let overlay = || given.value.and_then(overlay).ok_or(given.bad("0xVALUE/0xMASK, no bit outside the mask"));
    match part {
        "midr" => identity.midr = Some(word()?),
        "revidr" => identity.revidr = Some(word()?),
        "mmfr0" => identity.mmfr[0] = overlay()?,
        "mmfr1" => identity.mmfr[1] = overlay()?,
        "mmfr2" => identity.mmfr[2] = overlay()?,
        "late" => identity.is_late = given.flag()?,
        _ => return Err(Problem::Unknown(given.name)),
    }
    Ok(())
}

fn take_conflicts<'a>(settings: &mut Settings, part: &str, given: Given<'a>) -> Result<(), Problem<'a>> {
    match part {
        "seed" => settings.seed = given.number()?,
        "rate" => settings.rate = given.count()?,
        "after" => settings.after = given.number()?,
        "burst" => settings.burst = given.count()?,
        "address" => {
            settings.addresses.push(given.number()?).map_err(|_| given.bad("no more than 8 addresses"))?;
        }
        "merciless" => settings.is_merciless = given.flag()?,
        "stage2" => settings.is_stage2 = given.flag()?,
        _ => return Err(Problem::Unknown(given.name)),
    }
    Ok(())
}

fn take_realm<'a>(settings: &mut realm::Settings, part: &str, given: Given<'a>) -> Result<(), Problem<'a>> {
    match part {
        "bits" => {
            let space = given.number()?.try_into().ok().and_then(Space::new);
            settings.space = space.ok_or(given.bad("0x21 to 0x30"))?;
        }
        "step" => settings.step = given.number()?,
        "seed" => settings.seed = given.number()?,
        "refuse" => settings.rate = given.number()?,
        "after" => settings.after = given.number()?,
        "address" => {
            settings.addresses.push(given.number()?).map_err(|_| given.bad("no more than 8 addresses"))?;
        }
        "error" => settings.is_error = given.flag()?,
        "protected-devices" => settings.has_protected_devices = given.flag()?,
        _ => return Err(Problem::Unknown(given.name)),
    }
    Ok(())
}

fn overlay(text: &str) -> Option<Overlay> {
    let (value, mask) = text.split_once('/')?;
    let overlay = Overlay { value: hexadecimal(value)?, mask: hexadecimal(mask)? };
    (overlay.value & !overlay.mask == 0).then_some(overlay)
}

/// `0x` and 1 to 16 digits. A sign, which `from_str_radix` would take, is none.
fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn every_option_is_read() {
        let options = parse(
            "monitor.guest=0x44000000 monitor.exit=semihosting monitor.cpu0.midr=0x410fd4f0 monitor.cpu7.revidr=0x1 \
             monitor.cpu1.mmfr0=0x1/0xf monitor.cpu1.mmfr1=0x0/0xf monitor.cpu1.mmfr2=0x20000000000000/0xf0000000000000 \
             monitor.cpu1.late -- monitor.nonsense",
        )
        .unwrap();
        assert_eq!(options.guest, Some(PhysAddr::new(0x4400_0000)));
        assert!(options.has_semihosting);
        assert_eq!((options.cpus[0].midr, options.cpus[7].revidr), (Some(0x410f_d4f0), Some(1)));
        let mmfr = [(1, 0xf), (0, 0xf), (2 << 52, 0xf << 52)].map(|(value, mask)| Overlay { value, mask });
        assert_eq!(options.cpus[1], Identity { mmfr, is_late: true, ..Identity::default() });
    }

    #[test]
    fn conflicts_are_asked_for_by_any_of_their_options() {
        let conflicts = |words: &str| {
            let line = std::format!("monitor.guest=0x0 {words} --");
            parse(&line).map(|options| options.conflicts).map_err(|problem| problem.to_string())
        };
        assert_eq!(conflicts(""), Ok(None));
        assert_eq!(conflicts("monitor.conflicts.seed=0x1"), Ok(Some(Settings::DEFAULT)));
        let mut asked =
            Settings { seed: 9, rate: 2, after: 4, burst: 3, is_merciless: true, is_stage2: true, ..Settings::DEFAULT };
        asked.addresses.push(0xffff_8000_0000_0000).unwrap();
        let words =
            ["seed=0x9", "rate=0x2", "after=0x4", "burst=0x3", "merciless", "stage2", "address=0xffff800000000000"];
        let words = words.map(|word| std::format!("monitor.conflicts.{word}")).join(" ");
        assert_eq!(conflicts(&words), Ok(Some(asked)));
        for (word, line) in [
            ("rate=0x0", "monitor.conflicts.rate=0x0: expected more than 0"),
            ("burst=2", "monitor.conflicts.burst=2: expected 0x and up to 16 digits"),
            ("merciless=1", "monitor.conflicts.merciless=1: expected no value"),
        ] {
            assert_eq!(conflicts(&std::format!("monitor.conflicts.{word}")), Err(line.to_string()));
        }
        assert!(conflicts(&"monitor.conflicts.address=0x0 ".repeat(9)).is_err());
    }

    #[test]
    fn a_realm_is_asked_for_by_any_of_its_options() {
        let realm = |words: &str| {
            let line = std::format!("monitor.guest=0x0 {words} --");
            parse(&line).map(|options| options.realm).map_err(|problem| problem.to_string())
        };
        assert_eq!(realm(""), Ok(None));
        assert_eq!(realm("monitor.realm.seed=0x1"), Ok(Some(realm::Settings::DEFAULT)));
        let mut asked = realm::Settings {
            space: Space::new(48).unwrap(),
            has_protected_devices: true,
            step: 2,
            seed: 3,
            rate: 4,
            after: 5,
            is_error: true,
            ..realm::Settings::DEFAULT
        };
        asked.addresses.push(0x4000_0000).unwrap();
        let words = ["bits=0x30", "protected-devices", "step=0x2", "seed=0x3", "refuse=0x4", "after=0x5", "error"];
        let words = words.map(|word| std::format!("monitor.realm.{word}")).join(" ");
        assert_eq!(realm(&std::format!("{words} monitor.realm.address=0x40000000")), Ok(Some(asked)));
        for (word, line) in [
            ("bits=0x20", "monitor.realm.bits=0x20: expected 0x21 to 0x30"),
            ("bits=0x100000029", "monitor.realm.bits=0x100000029: expected 0x21 to 0x30"),
            ("step=1", "monitor.realm.step=1: expected 0x and up to 16 digits"),
            ("error=1", "monitor.realm.error=1: expected no value"),
        ] {
            assert_eq!(realm(&std::format!("monitor.realm.{word}")), Err(line.to_string()));
        }
        assert!(realm(&"monitor.realm.address=0x0 ".repeat(9)).is_err());
    }

    #[test]
    fn the_guests_part_is_its_own() {
        for (line, guest) in [
            ("monitor.guest=0x0 -- quiet -- single", "quiet -- single"),
            ("monitor.guest=0x0 --", ""),
            ("-- a b", "a b"),
            ("a --b", "a --b"),
            ("", ""),
        ] {
            assert_eq!(guest_part(line), guest, "{line}");
        }
        assert_eq!(parse("quiet monitor.guest=0x0"), Err(Problem::NoGuest), "no word is the monitor's without --");
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        let with = |word: &str| {
            let line = std::format!("monitor.guest=0x44000000 {word} -- x");
            parse(&line).expect_err(word).to_string()
        };
        for (word, line) in [
            ("monitor.gest=1", "monitor.gest: unknown, expected one of the monitor's options, or -- before it"),
            ("quiet", "quiet: unknown, expected one of the monitor's options, or -- before it"),
            ("monitor.guest=0x1000", "monitor.guest=0x1000: expected 0x and an address on a 2 MiB boundary"),
            ("monitor.guest", "monitor.guest: expected 0x and an address on a 2 MiB boundary"),
            ("monitor.exit=now", "monitor.exit=now: expected semihosting or psci"),
            ("monitor.cpu8.late", "monitor.cpu8.late: about no CPU, expected a number from 0 to 7"),
            ("monitor.cpu1.late=1", "monitor.cpu1.late=1: expected no value"),
            (
                "monitor.cpu+1.late",
                "monitor.cpu+1.late: unknown, expected one of the monitor's options, or -- before it",
            ),
            ("monitor.cpu1.midr=0x100000000", "monitor.cpu1.midr=0x100000000: expected 0x and up to 8 digits"),
            (
                "monitor.cpu1.mmfr2=0x3/0x1",
                "monitor.cpu1.mmfr2=0x3/0x1: expected 0xVALUE/0xMASK, no bit outside the mask",
            ),
            (
                "monitor.cpu1.mmfr2=0x+1/0xf",
                "monitor.cpu1.mmfr2=0x+1/0xf: expected 0xVALUE/0xMASK, no bit outside the mask",
            ),
        ] {
            assert_eq!(with(word), line);
        }
    }
}
