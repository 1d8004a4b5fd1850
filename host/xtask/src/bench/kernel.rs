//! `cargo xtask bench kernel`: what memory costs a program on today's Linux and on our kernel, in instructions.
//!
//! ```text
//! programs/costs ──as the first process, one nanosecond an instruction──▶ its lines ──▶ tables; with --record, beside the commands
//! ```

mod beside;
mod boots;
mod settings;

use std::{ffi::OsString, fmt::Write, fs, path::Path};

use clap::Parser;

use self::{
    boots::{Costs, Initrd, costs, of_linux, of_ours},
    settings::{Row, SETTINGS, SIZES, Setting},
};
use crate::{
    bare::Program,
    boot::Programs,
    cargo, dist,
    fetch::linux::Kind,
    help,
    outcome::{Failure, Status},
    terminal,
};

/// What a person asked for.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, override_help = help::BENCH_KERNEL)]
struct Options {
    /// Whether the tables and the commands are written beside the other results.
    #[arg(long)]
    record: bool,
    /// Whether a kernel for pages of 4K alone is measured beside ours, and nothing else.
    #[arg(long, conflicts_with = "record")]
    fixed_page_size: bool,
}

const RESULTS: &str = "bench/results/kernel.md";

/// Entry of `cargo xtask bench kernel`.
pub(super) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let Some(options) = help::options::<Options>("bench kernel", arguments)? else {
        return Ok(help::show(help::BENCH_KERNEL));
    };
    let program = fs::read(dist::build_static("programs")?.join("costs"));
    let program = program.map_err(|error| Failure::file(Path::new("costs"), &error))?;
    if options.fixed_page_size {
        terminal::print(&beside::fixed_page_size(&program)?);
        return Ok(Status::Passed);
    }
    let (mut text, commands) = beside_linux(&program)?;
    terminal::print(&text);
    if options.record {
        text += &format!("Made by what `cargo xtask bench kernel --record` runs:\n\n```\n{commands}```\n");
        let path = cargo::workspace().join(RESULTS);
        fs::write(&path, text).map_err(|error| Failure::file(&path, &error))?;
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
