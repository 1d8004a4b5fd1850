//! `cargo xtask demo mixed-cpus`: today's Linux and our kernel on one phone, whose CPUs differ and take TLB conflict aborts.
//!
//! ```text
//! cortex-x4-a720-with-conflicts ──┬── Linux ───┬─ counted, drawn ──▶ a table, target/demo/mixed-cpus.html
//!                                 └── ours ────┘   and ours counted again after a stress
//! conflicts-anywhere ──── Linux ──── what it says of the first conflict
//! ```

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::{Parser, ValueEnum};
use fs_err as fs;

use crate::{
    bare::Program,
    boot::{
        Programs,
        emulator::{self, Emulator},
    },
    cargo,
    compare::{
        count::Count,
        watched::{self, Folder, Guest, MEMORY, Place, READY, Then},
    },
    fetch::linux::{Kind, Linux},
    outcome::{Failure, Status},
    terminal,
};

const EXAMPLES: &str = "Examples:
  cargo xtask demo mixed-cpus   today's Linux and Vellum on a phone of a Cortex-X4 and three
                                Cortex-A720, whose TLBs have conflicts: leaves and tables, ours
                                after a stress too, and a page with both address spaces,
                                target/demo/mixed-cpus.html

It fetches Linux if it is not there, and takes some two minutes after that. ID registers and
conflicts are our monitor's, in QEMU. It says nothing about speed.

Exit status: 0 shown, 1 a kernel did not get ready, 2 an option is wrong, 3 this host lacks
something.";

/// The purpose of all this, in one table and one picture
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    what: What,
    /// Another QEMU than the host's: 7.2, 11 or a path
    #[arg(long = "qemu", value_name = "VERSION or PATH", default_value = "host", value_parser = emulator::parse)]
    emulator: Emulator,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum What {
    MixedCpus,
}

/// A phone: CPU 0 is a Cortex-X4, the others are Cortex-A720.
const PHONE: &str = "cortex-x4-a720-with-conflicts";
/// Where no kernel need survive.
const ANYWHERE: &str = "conflicts-anywhere";

/// Our kernel's stresses: changes of every kind from all CPUs, and resizes of what every CPU uses meanwhile.
const STRESS: [&str; 1] = ["vellum.stress=1000"];
const CONFLICTS: [&str; 2] = ["vellum.stress=200", "vellum.stress-kind=conflicts"];

/// The table says what the demo is for: large leaves on one side, healed after the stress, and conflicts that one survives.
pub(crate) fn is_convincing([linux, ours]: &[Seen; 2]) -> bool {
    let is_large = ours.count.leaves() * 50 < linux.count.leaves() && ours.count.tables * 20 < linux.count.tables;
    let lives = !ours.conflicts.starts_with("0 ") && linux.conflicts.starts_with("panics");
    is_large && ours.after_stress == Some(ours.count) && lives
}

/// What was seen of one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    kernel: String,
    count: Count,
    /// If it was put under one.
    after_stress: Option<Count>,
    /// Tables that it keeps for changes, as it counts them.
    reserve: Option<String>,
    /// What became of it where conflicts came.
    conflicts: String,
}

/// Entry of `cargo xtask demo`.
pub(crate) fn main(options: &Options) -> Result<Status, Failure> {
    let What::MixedCpus = options.what;
    let linux = Kind::today(false).find().map_or_else(|| Kind::today(false).fetch(), Ok)?;
    let (seen, page) = show(&linux, &options.emulator, &mut |line| eprintln!("cargo xtask demo: {line}"))?;
    terminal::print(table(&seen));
    terminal::print(format_args!("\nThe two address spaces: {}\n", page.display()));
    Ok(Status::Passed)
}

/// What is seen of both, and the page with their address spaces.
pub(crate) fn show(
    linux: &Linux,
    emulator: &Emulator,
    say: &mut dyn FnMut(&str),
) -> Result<([Seen; 2], PathBuf), Failure> {
    emulator.ensure()?;
    let programs = Programs::build(&[Program::Monitor, Program::Kernel], say)?;
    let (reader, folder) = (watched::build_vellum()?, Folder::new("demo")?);
    let place = Place { folder: &folder, reader: &reader, emulator, programs: &programs };
    let initrd = linux.built("idle.cpio")?;
    linux.write_initramfs(None, &initrd)?;
    let page = cargo::metadata()?.target_directory.join("demo/mixed-cpus.html");
    let demo = Demo { place, linux, initrd: &initrd, page: page.as_ref() };
    Ok((demo.seen(say)?, page.into()))
}

/// What the demo boots, and where the page goes.
struct Demo<'d> {
    place: Place<'d>,
    linux: &'d Linux,
    initrd: &'d Path,
    page: &'d Path,
}

impl Demo<'_> {
    fn seen(&self, say: &mut dyn FnMut(&str)) -> Result<[Seen; 2], Failure> {
        let (linux, ours) = (self.guest("linux", true, PHONE, &[]), self.guest("ours", false, PHONE, &[]));
        // Both run at once, so that one page is made of both.
        let name = name(self.linux);
        say(&format!("{name} and Vellum above {PHONE}"));
        let ((of_linux, of_ours), _) = linux.once_ready(&mut || {
            let of_linux = linux.count()?;
            let (of_ours, _) = ours.once_ready(&mut || {
                self.draw(&linux, &ours)?;
                ours.count()
            })?;
            Ok((of_linux, of_ours))
        })?;
        say("Vellum, under a stress");
        let stressed = self.guest("ours", false, PHONE, &STRESS);
        let (ours_after, _) = stressed.once_ready(&mut || stressed.count())?;
        say("Vellum, where conflicts come of resizes");
        let said =
            Guest { initrd: None, ..self.guest("ours", false, PHONE, &CONFLICTS) }.watch(&mut |_| Then::GoesOn)?;
        say(&format!("{name} above {ANYWHERE}"));
        let end = self.end_of_linux()?;
        let linux = Seen { kernel: name, count: of_linux, after_stress: None, reserve: None, conflicts: end };
        let (kernel, conflicts, reserve) = ("Vellum".to_owned(), survived(&said)?, in_reserve(&said));
        Ok([linux, Seen { kernel, count: of_ours, after_stress: Some(ours_after), reserve, conflicts }])
    }

    fn guest<'g>(&'g self, name: &'g str, is_linux: bool, machine: &'g str, words: &'g [&'g str]) -> Guest<'g> {
        Guest {
            place: self.place,
            name,
            machine,
            memory: MEMORY,
            linux: is_linux.then_some(self.linux),
            initrd: Some(self.initrd),
            words,
        }
    }

    /// Has `vellum report` draw both.
    fn draw(&self, linux: &Guest<'_>, ours: &Guest<'_>) -> Result<(), Failure> {
        let folder = self.page.parent().unwrap_or(self.page);
        fs::create_dir_all(folder)?;
        let mut command = Command::new(self.place.reader);
        command.args(["report", &linux.source(), &ours.source(), "--part", "kernel", "-o"]).arg(self.page);
        command.args(["--called", &name(self.linux), "--called", "Vellum"]);
        let failed = |why: String| Failure::failed(format!("vellum report: {why}"));
        let output = command.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
        // What it finds in them is no failure.
        match output.status.code() {
            Some(0 | 1) => Ok(()),
            _ => Err(failed(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "))),
        }
    }

    /// What Linux says last where a conflict comes at a moment that it did not choose.
    fn end_of_linux(&self) -> Result<String, Failure> {
        let mut end = "got ready".to_owned();
        // The console of the first moments: a conflict may come before there is another.
        let guest = self.guest("linux", true, ANYWHERE, &["earlycon=pl011,0x9000000"]);
        guest.watch(&mut |line| match line.split_once("Kernel panic - ") {
            Some((_, why)) => {
                end = format!("panics: {why}");
                Then::Ends
            }
            None if line == READY => Then::Ends,
            None => Then::GoesOn,
        })?;
        Ok(end)
    }
}

/// `Linux 7.3.4` of `linux-binary-7.3.4+deb13-arm64`.
fn name(linux: &Linux) -> String {
    let version = linux.name.split('-').find(|part| part.starts_with(|letter: char| letter.is_ascii_digit()));
    let version = version.and_then(|version| version.split('+').next());
    version.map_or_else(|| linux.name.clone(), |version| format!("Linux {version}"))
}

/// What our kernel says of the conflicts that it lived through.
fn survived(said: &str) -> Result<String, Failure> {
    let line = said.lines().filter_map(|line| line.strip_prefix("stress: ")).find(|line| line.contains("survived"));
    let line = line.and_then(|line| line.split(',').next()).map(str::to_owned);
    line.ok_or_else(|| Failure::failed("our kernel did not say what conflicts it survived"))
}

/// What our kernel says of the tables that it keeps for changes: `tables: 5 in 20K, and 80 in reserve, 320K`.
fn in_reserve(said: &str) -> Option<String> {
    let line = said.lines().find(|line| line.starts_with("tables: "))?;
    let (_, reserve) = line.split_once(", and ")?;
    Some(reserve.trim().to_owned())
}

/// Both kernels beneath each other, and what the table does not say.
pub(crate) fn table([linux, ours]: &[Seen; 2]) -> String {
    let line = |cells: [&str; 6]| {
        let [name, numbers @ .., last] = cells;
        let numbers: String = numbers.iter().map(|cell| format!("{cell:>14}")).collect();
        format!("{name:32}{numbers}  {last}\n")
    };
    let row = |seen: &Seen, conflicts: &str| {
        let Seen { kernel, count, after_stress, .. } = seen;
        let numbers = [count.leaves(), count.tables, count.table_bytes >> 10];
        let [leaves, tables, kib] = numbers.map(|number| number.to_string());
        let after = after_stress.map_or_else(|| "-".to_owned(), |after| after.leaves().to_string());
        line([kernel, &leaves, &tables, &kib, &after, conflicts])
    };
    let mut text = format!("{PHONE}: 4 CPUs, 2 GiB, 4K pages; the kernel's half of addresses\n");
    text += &line(["", "leaves", "tables", "KiB", "after stress", "TLB conflict aborts"]);
    text += &row(linux, "none: it never resizes a live leaf there");
    text += &row(ours, &ours.conflicts);
    if let Some(reserve) = &ours.reserve {
        text += &format!("{:32}{:>28}{reserve}, for changes in atomic context\n", "", "");
    }
    text += &format!("\nAbove {ANYWHERE}, where conflicts come at any TLBI, {} {}\n", linux.kernel, linux.conflicts);
    text +=
        "All of it is seen in QEMU: ID registers and conflicts are made by our monitor. Nothing here tells speed.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_survived_is_read_from_the_stress() {
        let said = "stress: fetch 1\nstress: 6308 conflicts survived, 14 cells empty\nstress: done\n";
        assert_eq!(survived(said).expect("a line"), "6308 conflicts survived");
        assert!(survived("stress: no changes refused\n").is_err());
    }

    #[test]
    fn names_and_reserves() {
        let linux =
            |name: &str| Linux { kernel: "k".into(), busybox: "b".into(), modules: vec![], name: name.to_owned() };
        assert_eq!(name(&linux("linux-binary-7.3.4+deb13-arm64")), "Linux 7.3.4");
        assert_eq!(name(&linux("linux-image-6.1.0-56-arm64")), "Linux 6.1.0");
        assert_eq!(name(&linux("odd")), "odd");
        let said = "x\ntables: 5 in 20K, and 80 in reserve, 320K\r\ny\n";
        assert_eq!(in_reserve(said).as_deref(), Some("80 in reserve, 320K"));
        assert_eq!(in_reserve("tables: 5"), None);
    }
}
