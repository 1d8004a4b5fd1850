//! `cargo xtask compare programs`: what programs say and end with, on our kernel and on Linux.
//!
//! ```text
//! folder ──▶ boxes of programs ──initrd──▶ our kernel ──┐
//!                               └─────────▶ Linux ──────┴──▶ what each said ──▶ differences, but for those excused
//! ```

pub(super) mod boots;
mod differences;
pub(super) mod excuses;
pub(super) mod folder;
pub(super) mod told;

use std::path::PathBuf;

use clap::{Parser, value_parser};

use super::compared::Compared;
use crate::{
    bare::Program,
    boot::{
        Programs,
        emulator::{self, Emulator},
    },
    fetch::linux::Kind,
    help,
    outcome::Failure,
};
use boots::{Kernel, Machine, Ran};
use excuses::Excuses;

/// Output and status of programs, on our kernel and on Linux in the same QEMU
///
/// Each program runs alone, as root, in a folder of its own that is removed afterwards, with
/// nothing to read. Many share a boot. A program that takes the kernel along, or never ends, is
/// named, and the others go on in another boot. `programs/excuses.tsv` lists lines that may differ,
/// with reasons.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(no_binary_name = true)]
pub(crate) struct Options {
    /// Static arm64 programs, and scripts for busybox's shell; without it the project's own
    folder: Option<PathBuf>,
    /// Programs whose names have this in them
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Page size of both kernels
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = ["4k", "16k"])]
    page_size: String,
    /// The host's own Linux, or the newest
    #[arg(long, value_name = "WHICH", default_value = "host", value_parser = ["host", "today"])]
    linux: String,
    /// Number of CPUs, 1 to 8
    #[arg(long, value_name = "N", default_value = "2", value_parser = value_parser!(u32).range(1..=8))]
    cpus: u32,
    /// Show the programs' lines on Linux as well
    #[arg(long)]
    show: bool,
    /// Time of each program
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Words for our kernel's command line (docs/options.md), of which the last counts
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Another QEMU than the host's: 7.2, 11 or a path
    #[arg(long = "qemu", value_name = "VERSION or PATH", default_value = "host", value_parser = emulator::parse)]
    emulator: Emulator,
}

/// Without contiguous groups, which Linux has only where somebody asks for them.
pub(super) const WORDS: &str = "vellum.folio=linux";

/// Memory of the machine.
const MEMORY: &str = "1G";

/// Compares the project's own programs.
pub(crate) fn compare_own(emulator: &Emulator, say: &mut dyn FnMut(&str)) -> Result<Compared, Failure> {
    compare(&Options { emulator: emulator.clone(), ..help::read("compare programs", &[])? }, say)
}

/// Compares as a person asked.
pub(super) fn compare(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Compared, Failure> {
    let linux = Kind::of(&options.page_size, &options.linux).need()?;
    options.emulator.ensure()?;
    let excuses = Excuses::read()?;
    let programs = folder::read(options.folder.as_deref(), options.only.as_deref(), say)?;
    let built = Programs::build(&[Program::Kernel], say)?;
    let Options { cpus, timeout, ref page_size, ref emulator, .. } = *options;
    let words = &format!("{WORDS} {}", options.append);
    let machine = Machine { linux: &linux, built: &built, emulator, page_size, cpus, timeout, words, memory: MEMORY };
    let theirs = machine.run_all(Kernel::Linux, &programs, say)?.told;
    let Ran { told: ours, failed } = machine.run_all(Kernel::Ours, &programs, say)?;
    let mut compared = Compared { differing: failed.len(), package: linux.name.clone(), ..Compared::default() };
    failed.iter().for_each(|line| compared.text.push_str(&format!("our kernel: {line}\n")));
    let mut excused = 0;
    for (program, (theirs, ours)) in programs.iter().zip(theirs.iter().zip(&ours)) {
        if options.show {
            let lines = theirs.lines.iter().map(|line| format!("    {line}\n"));
            compared.text.push_str(&format!("{} on Linux:\n{}", program.name, lines.collect::<String>()));
        }
        let all = differences::of(theirs, ours);
        let left = excuses.without_excused(&program.name, &all);
        excused += all.len() - left.len();
        compared.count(left.is_empty());
        if !left.is_empty() {
            compared.text.push_str(&describe(&program.name, &left));
        }
    }
    compared.text.push_str(&format!(
        "{} programs: {} as on {}, {} not; {excused} lines excused\n",
        programs.len(),
        compared.same,
        linux.name,
        programs.len() - compared.same
    ));
    Ok(compared)
}

/// The lines that are told of a program: Linux's after `-`, ours after `+`.
fn describe(name: &str, left: &[differences::Difference]) -> String {
    /// More of one program is not read.
    const MOST: usize = 60;
    let mut text = format!("{name}:\n");
    left.iter().take(MOST).for_each(|one| text.push_str(&format!("    {one}\n")));
    if left.len() > MOST {
        text.push_str(&format!("    and {} more\n", left.len() - MOST));
    }
    text
}
