//! `vellum decode oops`: the report of a fault, in words: each register, the walk level by level, and whether they agree.

mod agree;
mod read;
mod walk;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use serde_json::{Value, json};
use terminal::{Ending, Table};
use vmsa::Syndrome;
use vmsa::fields::SPSR_EL1;

use crate::args::{EncodingArguments, Regime};
use crate::select::Failure;

use super::conclusions;
use read::{Name, Report, System};
use walk::Walk;

/// So much of a log is read.
const LARGEST: u64 = 16 << 20;

/// The text that is meant, if an oops is: a file's, standard input's, or what stands on the command line (`pgd=… pte=…`).
pub(super) fn text(what: &str, values: &[String]) -> Result<Option<String>, Failure> {
    let is_text = |value: &String| value.contains('=') || value.contains(' ');
    match what {
        "oops" | "-" if values.is_empty() => Ok(Some(take("-")?)),
        "oops" | "-" if values.iter().any(is_text) => Ok(Some(values.join(" "))),
        "oops" | "-" => values.iter().map(|name| take(name)).collect::<Result<String, _>>().map(Some),
        "descriptor" | "pte" if values.iter().any(is_text) => Ok(Some(values.join(" "))),
        _ if what.contains('=') => Ok(Some([&[what.to_owned()], values].concat().join(" "))),
        _ => Ok(None),
    }
}

fn take(name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = match name {
        "-" => io::stdin().lock().take(LARGEST).read_to_end(&mut bytes),
        _ => File::open(name).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::file(if name == "-" { "standard input" } else { name }, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Prints every report in a text.
pub(super) fn run(text: &str, is_json: bool, encoding: &EncodingArguments) -> Result<Ending, Failure> {
    let decoded = decode(text, encoding)?;
    let text: String = match is_json {
        true => decoded.iter().map(|oops| format!("{}\n", oops.json())).collect(),
        false => decoded.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    };
    terminal::try_print(text)?;
    Ok(if decoded.iter().all(Oops::agrees) { Ending::Clean } else { Ending::Wrong })
}

/// The reports in a text, at least one.
pub(crate) fn decode(text: &str, encoding: &EncodingArguments) -> Result<Vec<Oops>, Failure> {
    let reports = read::read(text);
    if reports.is_empty() {
        let line = "no report of a fault: expected lines such as `ESR = 0x96000044`, `far: …`, or `[…] pgd=…, pte=…`";
        return Err(Failure(line.to_owned()));
    }
    reports.iter().map(|report| Oops::of(report, encoding)).collect()
}

/// A report in words.
pub(crate) struct Oops {
    head: String,
    /// Name, value, and what it says.
    registers: Vec<[String; 3]>,
    /// Name, level, value, and what it says.
    walk: Vec<[String; 4]>,
    /// What agrees, or does not.
    agreement: Vec<(bool, String)>,
    /// What to look at next.
    next: Vec<String>,
}

impl Oops {
    fn of(report: &Report, encoding: &EncodingArguments) -> Result<Self, Failure> {
        let encoding = EncodingArguments {
            regime: regime(report, encoding),
            granule: report.page_size.unwrap_or(encoding.granule),
            wide: encoding.wide || report.bits.is_some_and(|bits| bits > 48),
            ..*encoding
        };
        let walk = Walk::of(report, &encoding)?;
        let system = report.system.map_or("fault", System::name);
        let what = report.get(Name::Esr).map_or_else(String::new, |esr| format!(": {}", Syndrome::new(esr)));
        Ok(Self {
            head: format!("{system}{what}"),
            registers: registers(report),
            walk: walk.rows.clone(),
            agreement: agree::agreement(report, &walk),
            next: agree::next(report, &walk),
        })
    }

    /// Whether no part contradicts another.
    pub(super) fn agrees(&self) -> bool {
        self.agreement.iter().all(|(agrees, _)| *agrees)
    }

    pub(super) fn json(&self) -> Value {
        let registers: Vec<Value> = self
            .registers
            .iter()
            .map(|[name, value, says]| json!({ "name": name, "value": value, "says": says }))
            .collect();
        let walk: Vec<Value> = self
            .walk
            .iter()
            .map(|[name, level, value, says]| json!({ "name": name, "level": level, "value": value, "says": says }))
            .collect();
        let agreement: Vec<Value> =
            self.agreement.iter().map(|(agrees, says)| json!({ "agrees": agrees, "says": says })).collect();
        json!({
            "kind": "oops",
            "says": self.head,
            "registers": registers,
            "walk": walk,
            "agreement": agreement,
            "next": self.next,
        })
    }
}

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        let mut table = Table::new("  ");
        self.registers.iter().for_each(|row| table.row(row.iter().map(String::as_str)));
        write!(f, "{table}")?;
        let mut table = Table::new("  ");
        self.walk.iter().for_each(|row| table.row(row.iter().map(String::as_str)));
        write!(f, "{table}")?;
        for (agrees, line) in &self.agreement {
            writeln!(f, "{} {line}", if *agrees { "agrees:   " } else { "DISAGREES:" })?;
        }
        self.next.iter().try_for_each(|line| writeln!(f, "next:      {line}"))
    }
}

/// Whose tables these are: what the user says, or else what its author translates by.
fn regime(report: &Report, encoding: &EncodingArguments) -> Regime {
    match (encoding.regime, report.system) {
        (Regime::El1, Some(System::Xen | System::Kvm)) => Regime::El2,
        (Regime::El1, Some(System::TfA)) => Regime::El3,
        (regime, _) => regime,
    }
}

/// Each register once, in words.
fn registers(report: &Report) -> Vec<[String; 3]> {
    let hex = |value: u64| format!("{value:#018x}");
    let mut rows = Vec::new();
    let mut row = |name: &str, of: Name, says: &dyn Fn(u64) -> String| {
        if let Some(value) = report.get(of) {
            rows.push([name.to_owned(), hex(value), says(value)]);
        }
    };
    row("ESR", Name::Esr, &|esr| Syndrome::new(esr).to_string());
    row("FAR", Name::Far, &|far| agree::half(far, report.bits));
    let of_lines = |register, value| conclusions::of(register, value, None).into_iter().next().unwrap_or_default();
    row("HPFAR", Name::Hpfar, &|value| of_lines(&vmsa::fields::HPFAR_EL2, value));
    row("ELR", Name::Elr, &|_| "the instruction".to_owned());
    row("SPSR", Name::Spsr, &|spsr| {
        let mode = SPSR_EL1.the("M");
        let pan = if SPSR_EL1.the("PAN").get(spsr) != 0 { ", PAN on" } else { "" };
        format!("from {}{pan}", mode.value_name(mode.get(spsr)).unwrap_or("a reserved mode"))
    });
    row("PAR", Name::Par, &|par| match par & 1 {
        0 => of_lines(&vmsa::fields::PAR_EL1_SUCCESS, par),
        _ => format!("the translation failed: {}", vmsa::FaultStatus::decode((par >> 1) as u8 & 0x3f)),
    });
    if let (Some(size), Some(bits)) = (report.page_size, report.bits) {
        let whose = match report.is_of_process {
            Some(true) => "a process's, ",
            Some(false) => "the kernel's, ",
            None => "",
        };
        let root = report.root.map_or_else(String::new, hex);
        rows.push(["tables".to_owned(), root, format!("{whose}{size} pages, {bits} bits")]);
    }
    rows
}

impl System {
    const fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Kvm => "KVM at EL2 (nVHE)",
            Self::Xen => "Xen",
            Self::UBoot => "U-Boot",
            Self::Sel4 => "seL4",
            Self::FreeBsd => "FreeBSD",
            Self::TfA => "TF-A",
            Self::OpTee => "OP-TEE",
            Self::Edk2 => "EDK2",
            Self::Zephyr => "Zephyr",
        }
    }
}
