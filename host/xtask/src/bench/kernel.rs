//! `cargo xtask bench kernel`: what memory costs a program on today's Linux and on our kernel, in instructions.
//!
//! ```text
//! programs/costs ──as the first process, one nanosecond an instruction──▶ its lines ──▶ tables; with --record, beside the commands
//! ```

mod beside;
mod boots;
mod settings;

use std::{ffi::OsString, fmt::Write};

use clap::Args;
use fs_err as fs;

use self::{
    boots::{Costs, Initrd, costs, of_linux, of_ours},
    settings::{Row, SETTINGS, SIZES, Setting},
};
use crate::{
    bare::Program,
    boot::Programs,
    cargo, dist,
    fetch::linux::Kind,
    outcome::{Failure, Status},
    terminal,
};

const ABOUT: &str =
    "Boots one static program as the first process of Linux 7.3 and of ours, with 4K and 16K pages: first touch
by a store, a load and an atomic, fork, munmap and mprotect of 256 MiB; the boot until it runs, and
memory in use then. The same with huge pages (MADV_HUGEPAGE), and with folios of 64 KiB; pages of
memfd_secret, both kernels above the monitor at level 3.

One CPU, 2 GiB, one nanosecond of the emulator's clock for each instruction: a run is the same each
time. `cargo xtask fetch linux --suite trixie-backports` gets the kernels.

Exit status: 0 printed, 1 a kernel did not run the program, 2 an option is wrong, 3 this host lacks
something.";

/// Costs of memory for programs on Linux and on our kernel, in instructions
#[derive(Args)]
#[command(after_help = ABOUT)]
pub(super) struct Options {
    /// Also write bench/results/kernel.md, with the commands
    #[arg(long)]
    record: bool,
    /// Ours beside a kernel of ours for 4K alone: instructions, and bytes of text and data
    #[arg(long, conflicts_with = "record")]
    fixed_page_size: bool,
}

const RESULTS: &str = "bench/results/kernel.md";

/// Entry of `cargo xtask bench kernel`.
pub(super) fn main(options: &Options) -> Result<Status, Failure> {
    let program = fs::read(dist::build_static("programs")?.join("costs"))?;
    if options.fixed_page_size {
        terminal::print(&beside::fixed_page_size(&program)?);
        return Ok(Status::Passed);
    }
    let (mut text, commands) = beside_linux(&program)?;
    terminal::print(&text);
    if options.record {
        text += &format!("Made by what `cargo xtask bench kernel --record` runs:\n\n```\n{commands}```\n");
        let path = cargo::workspace().join(RESULTS);
        fs::write(path, text)?;
    }
    Ok(Status::Passed)
}

/// The tables, and the commands that made them.
fn beside_linux(program: &[u8]) -> Result<(String, String), Failure> {
    let built = Programs::build(&[Program::Kernel, Program::Monitor], &mut |line| eprintln!("{line}"))?;
    let initrd = Initrd::write(program)?;
    let mut text = String::from(
        "# What memory costs programs\n\nInstructions, in QEMU with `-icount`: one nanosecond is one.\n\n",
    );
    let mut commands = String::new();
    for setting in &SETTINGS {
        for (place, size) in SIZES.iter().enumerate().filter(|(_, size)| setting.sizes.contains(size)) {
            let linux = Kind::today(place == 1).need()?;
            let mut run = |name: &str, words: Vec<OsString>| {
                eprintln!("cargo xtask bench: {name}, {size}, {}", setting.name);
                costs(setting, &words, &initrd, &built, &mut commands)
            };
            let theirs = run(&linux.name, of_linux(&linux, setting))?;
            let ours = run("ours", of_ours(size, setting))?;
            text += &table(setting, (size, &linux.name, place), &theirs, &ours);
        }
    }
    Ok((text, commands))
}

fn table(setting: &Setting, (size, linux, place): (&str, &str, usize), theirs: &Costs, ours: &Costs) -> String {
    let mut text = format!("| {size}, {} | {linux} | ours | goal |\n|---|--:|--:|--:|\n", setting.name);
    for Row { key, name, goals } in setting.rows {
        let goal = goals[place].map_or("".to_owned(), |goal| goal.to_string());
        let _ = writeln!(text, "| {name} | {} | {} | {goal} |", theirs[*key], ours[*key]);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_what_its_setting_tells_of() {
        let setting = &SETTINGS[0];
        let costs: Costs = setting.rows.iter().map(|row| (row.key.to_owned(), 7)).collect();
        let text = table(setting, ("16k", "linux", 1), &costs, &costs);
        assert!(text.starts_with("| 16k, pages alone | linux | ours | goal |"), "{text}");
        assert!(text.contains("| munmap, a page | 7 | 7 | 150 |"), "{text}");
    }
}
