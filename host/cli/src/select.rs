//! Opens the machine that the user named, and finds the page tables that are meant.

use clap::ValueEnum;
use image::{Machine, Regime, Registers, Root};
use vmsa::fields::{HCR_EL2, SCTLR_EL1};

use crate::args::{self, AccessArguments, MachineArguments, Part};
use crate::progress::Progress;
use crate::{permissions, say};

/// Why a command ends without a result, in one line.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    /// Of a file that cannot be read or written.
    pub(crate) fn file(name: impl std::fmt::Display, error: &std::io::Error) -> Self {
        image::Error::io(name, error).into()
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A machine and those of its page tables that are meant.
pub(crate) struct Selection {
    pub(crate) machine: Machine,
    pub(crate) roots: Vec<Root>,
}

/// Opens the machine and selects its page tables; at least one.
pub(crate) fn open(machine: &MachineArguments) -> Result<Selection, Failure> {
    let arguments = &machine.access;
    let by_hand = registers(arguments)?;
    let mut machine = machine.source.open(arguments.ram.as_ref(), by_hand.is_empty())?;
    for note in &machine.notes {
        say::note(note);
    }
    let is_by_hand = !by_hand.is_empty();
    if is_by_hand {
        machine.give(by_hand);
    }
    let mut roots = if arguments.search { Vec::new() } else { known(&mut machine)? };
    if roots.is_empty() && (machine.cpus.is_empty() || arguments.search) {
        roots = search(&mut machine)?;
    }
    if let Some(mair) = arguments.mair {
        roots.iter_mut().for_each(|root| root.memory = Some(vmsa::registers::MemoryTypes(mair)));
    }
    for root in &mut roots {
        root.control = arguments.permissions.over(root.control, root.is_stage1());
    }
    if roots.is_empty() {
        let line = match is_by_hand {
            true => "the registers given name no page table",
            false => {
                "no page table is known: give --ttbr1 and --tcr (to dump, check, report, plan), or a source with registers"
            }
        };
        return Err(Failure(line.to_owned()));
    }
    let roots = choose(roots, arguments)?;
    if roots.iter().any(|root| root.memory.is_none() && root.is_stage1()) {
        say::note("MAIR is not known: memory types are named in Linux's order (give --mair)");
    }
    let mut unknown: Vec<String> = roots.iter().flat_map(permissions::unknown).collect();
    unknown.dedup();
    unknown.iter().for_each(say::note);
    Ok(Selection { machine, roots })
}

/// The page tables that registers or vmcoreinfo name.
fn known(machine: &mut Machine) -> Result<Vec<Root>, Failure> {
    let found = machine.roots()?;
    for note in &found.notes {
        say::note(note);
    }
    Ok(found.roots)
}

/// Searches all of memory; only the likeliest page table is meant, the others are told.
fn search(machine: &mut Machine) -> Result<Vec<Root>, Failure> {
    say::note("searching memory for page tables");
    let mut progress = None;
    let found = machine.search(&mut |done, all| {
        let bar = || Progress::new("searching {wide_bar} {bytes}/{total_bytes}, {eta} left", all);
        progress.get_or_insert_with(bar).at(done);
    })?;
    drop(progress);
    for root in found.iter().skip(1) {
        say::note(format!("not chosen: {root}"));
    }
    Ok(found.into_iter().take(1).collect())
}

/// What the user tells of registers. A TCR without a TTBR would be left out, so it is refused.
fn registers(arguments: &AccessArguments) -> Result<Registers, Failure> {
    if arguments.tcr.is_some() && arguments.ttbr0.or(arguments.ttbr1).is_none() {
        return Err(Failure("--tcr alone says nothing: give --ttbr1 or --ttbr0 too".to_owned()));
    }
    let el = match arguments.regime {
        args::Regime::El1 | args::Regime::Secure | args::Regime::Stage2 => 1,
        args::Regime::El2 | args::Regime::Host => 2,
        args::Regime::El3 => 3,
    };
    if arguments.regime.has_one_privilege() && arguments.ttbr1.is_some() {
        return Err(Failure(format!("EL{el} has no TTBR1: give --ttbr0 (EL2 as a host, with HCR_EL2.E2H, is el2&0)")));
    }
    if arguments.regime != args::Regime::El1 && arguments.tcr.or(arguments.vttbr).is_none() {
        return Err(Failure(
            "--regime says whose registers are given: --ttbr0 and --tcr, or --vttbr and --vtcr".to_owned(),
        ));
    }
    let e2h = if arguments.regime == args::Regime::Host { HCR_EL2.the("E2H").mask() } else { 0 };
    let hcr = arguments.vttbr.map_or(e2h, |_| e2h | arguments.hcr.unwrap_or(0) | HCR_EL2.the("VM").mask());
    let mut registers = Registers::default();
    let values = [
        (format!("TTBR1_EL{el}"), arguments.ttbr1),
        (format!("TTBR0_EL{el}"), arguments.ttbr0),
        (format!("TCR_EL{el}"), arguments.tcr),
        (format!("SCTLR_EL{el}"), arguments.tcr.map(|_| SCTLR_EL1.the("M").mask())),
        ("VTTBR_EL2".to_owned(), arguments.vttbr),
        ("VTCR_EL2".to_owned(), arguments.vtcr),
        ("HCR_EL2".to_owned(), (hcr != 0).then_some(hcr)),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            registers.set(&name, value);
        }
    }
    Ok(registers)
}

fn choose(roots: Vec<Root>, arguments: &AccessArguments) -> Result<Vec<Root>, Failure> {
    let of_cpu = |root: &Root| match (&root.origin, arguments.cpu) {
        (image::Origin::Registers(cpus), Some(cpu)) => cpus.contains(&cpu),
        _ => true,
    };
    let all: Vec<Root> = roots.into_iter().filter(of_cpu).collect();
    if all.is_empty() {
        return Err(Failure(format!(
            "CPU {} is not there, or its MMU is off: leave --cpu out to see which are",
            arguments.cpu.unwrap_or(0)
        )));
    }
    let chosen: Vec<Root> = all.iter().filter(|root| is_of(arguments.part, root.regime)).cloned().collect();
    match (chosen.is_empty(), arguments.part) {
        (false, _) => Ok(chosen),
        // A kernel that lives in a lower half, or at EL2, is a kernel too.
        (true, Part::Kernel) => Ok(vec![all[0].clone()]),
        (true, part) => {
            let mut list: Vec<&str> = all.iter().map(|root| root.regime.register()).collect();
            list.dedup();
            let part = part.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            Err(Failure(format!("no page table of --part {part} is in use; there is that of {}", list.join(", "))))
        }
    }
}

fn is_of(part: Part, regime: Regime) -> bool {
    match part {
        Part::Kernel => matches!(regime, Regime::El1Upper | Regime::El2Upper),
        Part::User => regime == Regime::El1Lower,
        Part::El2 => matches!(regime, Regime::El2Lower | Regime::El2Upper),
        Part::El3 => regime == Regime::El3,
        Part::Stage2 => regime == Regime::Stage2,
        Part::All => true,
    }
}
