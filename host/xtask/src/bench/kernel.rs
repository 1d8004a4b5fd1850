//! `cargo xtask bench kernel`: what memory costs a program on today's Linux and on our kernel, in instructions.
//!
//! ```text
//! programs/costs ──as the first process, one nanosecond an instruction──▶ its lines ──▶ a table; with --record, beside the commands
//! ```

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use clap::Parser;
use elf::{
    ElfBytes,
    abi::{SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS},
    endian::LittleEndian,
    section::SectionHeader,
};

use crate::{
    bare::Program,
    boot::{
        self, Programs, guest,
        options::{self, Asked},
    },
    cargo, dist,
    fetch::{
        cpio::Archive,
        linux::{Kind, Linux},
    },
    help,
    outcome::{Failure, Status},
    terminal::{self, quoted},
};

/// What a person asked for.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, override_help = help::BENCH_KERNEL)]
struct Options {
    /// Whether the table and the commands are written beside the other results.
    #[arg(long)]
    record: bool,
    /// Whether a kernel for pages of 4K alone is measured beside ours, and nothing else.
    #[arg(long, conflicts_with = "record")]
    fixed_page_size: bool,
}

/// A line of the program's, how the table calls it, and what is to be reached with pages of 4K and 16K.
struct Row {
    key: &'static str,
    name: &'static str,
    goals: [Option<u64>; 2],
}

const ROWS: [Row; 6] = [
    Row { key: "touch", name: "first touch by a store, a page", goals: [Some(700), Some(1_200)] },
    Row { key: "fork", name: "fork, a page", goals: [Some(60), Some(60)] },
    Row { key: "munmap", name: "munmap, a page", goals: [Some(120), Some(150)] },
    Row { key: "mprotect", name: "mprotect of half, the call", goals: [Some(1_200_000), Some(300_000)] },
    Row { key: "boot", name: "boot, to the program", goals: [Some(60_000_000), None] },
    Row { key: "used", name: "memory in use then, KiB", goals: [Some(8 << 10), None] },
];

const SIZES: [&str; 2] = ["4k", "16k"];
const MEMORY_BYTES: u64 = 2 << 30;
const RESULTS: &str = "bench/results/kernel.md";

type Costs = BTreeMap<String, u64>;

/// Entry of `cargo xtask bench kernel`.
pub(super) fn main(arguments: &[OsString]) -> Result<Status, Failure> {
    let Some(options) = help::options::<Options>("bench kernel", arguments)? else {
        return Ok(help::show(help::BENCH_KERNEL));
    };
    let program = fs::read(dist::build_static("programs")?.join("costs"));
    let program = program.map_err(|error| Failure::file(Path::new("costs"), &error))?;
    if options.fixed_page_size {
        terminal::print(&beside_fixed(&program)?);
        return Ok(Status::Passed);
    }
    let built = Programs::build(&[Program::Kernel], &mut |line| eprintln!("{line}"))?;
    let linux = [false, true].map(|has_16k_pages| Kind::today(has_16k_pages).need());
    let mut text = String::from(
        "# What memory costs programs\n\nInstructions, in QEMU with `-icount`: one nanosecond is one.\n\n",
    );
    let mut commands = String::new();
    for (size, linux) in SIZES.iter().zip(linux) {
        let linux = linux?;
        let initrd = write_archive(&program)?;
        let mut run = |name: &str, words: Vec<OsString>| {
            eprintln!("cargo xtask bench: {name}, {size}");
            costs(&words, &initrd, &built, &mut commands)
        };
        let both = run(&linux.name, of_linux(&linux)).and_then(|theirs| Ok((theirs, run("ours", of_ours(size))?)));
        let _ = fs::remove_file(&initrd);
        let (theirs, ours) = both?;
        let place = SIZES.iter().position(|one| one == size).unwrap_or(0);
        text += &table(size, &linux.name, place, &theirs, &ours);
    }
    terminal::print(&text);
    if options.record {
        text += &format!("Made by `cargo xtask bench kernel --record`, which ran:\n\n```\n{commands}```\n");
        let path = cargo::workspace().join(RESULTS);
        fs::write(&path, text).map_err(|error| Failure::file(&path, &error))?;
    }
    Ok(Status::Passed)
}

/// What the choice of page size at boot costs: ours beside a kernel that has none.
fn beside_fixed(program: &[u8]) -> Result<String, Failure> {
    let initrd = write_archive(program)?;
    let measure = |built: Programs| {
        let elf = fs::read(&built.find(Program::Kernel)?.elf);
        let sizes = sizes(&elf.map_err(|error| Failure::file(Path::new("kernel"), &error))?);
        Ok((costs(&of_ours("4k"), &initrd, &built, &mut String::new())?, sizes))
    };
    // The second build takes the first one's place.
    let fixed = Programs::of_4k(&mut |line| eprintln!("{line}")).and_then(measure);
    let ours = Programs::build(&[Program::Kernel], &mut |line| eprintln!("{line}")).and_then(measure);
    let _ = fs::remove_file(&initrd);
    let ((fixed, fixed_sizes), (ours, sizes)) = (fixed?, ours?);
    let mut text = String::from("| 4k | fixed | chosen at boot | more |\n|---|--:|--:|--:|\n");
    let mut row = |name: &str, fixed: u64, ours: u64| {
        let more = (ours as f64 / fixed.max(1) as f64 - 1.0) * 100.0;
        let _ = writeln!(text, "| {name} | {fixed} | {ours} | {more:+.2} % |");
    };
    ROWS.iter().take(3).for_each(|Row { key, name, .. }| row(name, fixed[*key], ours[*key]));
    row("text, bytes", fixed_sizes[0], sizes[0]);
    row("constants and data, bytes", fixed_sizes[1], sizes[1]);
    Ok(text)
}

/// Bytes of instructions, and of what else a kernel's file has that is loaded.
fn sizes(elf: &[u8]) -> [u64; 2] {
    let sections = ElfBytes::<LittleEndian>::minimal_parse(elf).ok().and_then(|file| file.section_headers());
    let is_loaded = |one: &SectionHeader| one.sh_type == SHT_PROGBITS && one.sh_flags & u64::from(SHF_ALLOC) != 0;
    sections.into_iter().flatten().filter(is_loaded).fold([0; 2], |mut sizes, one| {
        sizes[usize::from(one.sh_flags & u64::from(SHF_EXECINSTR) == 0)] += one.sh_size;
        sizes
    })
}

/// The program as the first process of both, in a file.
fn write_archive(program: &[u8]) -> Result<PathBuf, Failure> {
    let path = std::env::temp_dir().join(format!("vellum-costs-{}.cpio", std::process::id()));
    fs::write(&path, archive(program)).map_err(|error| Failure::file(&path, &error))?;
    Ok(path)
}

fn archive(program: &[u8]) -> Vec<u8> {
    let mut archive = Archive::new();
    ["dev", "proc"].iter().for_each(|folder| archive.folder(folder));
    archive.console("dev/console");
    archive.program("init", program);
    archive.finish()
}

fn of_linux(linux: &Linux) -> Vec<OsString> {
    let words = "console=ttyAMA0 quiet loglevel=0 panic=-1 transparent_hugepage=never";
    ["--append".into(), words.into(), "--kernel".into(), linux.kernel.clone().into()].into()
}

fn of_ours(size: &str) -> Vec<OsString> {
    ["--page-size", size, "--append", "vellum.folio=never", "--init", "/init"].map(Into::into).into()
}

/// Boots, and reads what the program says.
fn costs(words: &[OsString], initrd: &Path, built: &Programs, commands: &mut String) -> Result<Costs, Failure> {
    let mut all: Vec<OsString> = ["--cpus", "1", "--memory", "2G", "--icount", "--initrd"].map(Into::into).into();
    all.push(initrd.into());
    all.extend(words.iter().cloned());
    all.extend(
        words.iter().any(|word| word == "--kernel").then(|| ["--".into(), "-no-reboot".into()]).into_iter().flatten(),
    );
    let Asked::Run(options) = options::parse(&all)? else {
        return Err(Failure::new(Status::Failed, "the options of a boot ask for help"));
    };
    let (mut command, _files) = boot::command(&options, built)?;
    let folder = cargo::workspace().to_string_lossy().into_owned();
    let line: Vec<String> =
        command.get_args().map(|word| quoted(OsStr::new(&word.to_string_lossy().replace(&*folder, ".")))).collect();
    let _ = writeln!(commands, "qemu-system-aarch64 {}", line.join(" "));
    let ended = guest::run(&mut command, None, &mut |_| {});
    let ended = ended.map_err(|error| Failure::new(Status::Failed, error.to_string()))?;
    read(&String::from_utf8_lossy(&ended.output)).ok_or_else(|| {
        let text = String::from_utf8_lossy(&ended.output).into_owned();
        Failure::new(
            Status::Failed,
            format!("the program did not tell all: {}", text.lines().last().unwrap_or_default()),
        )
    })
}

/// The program's lines; none if one is missing.
fn read(text: &str) -> Option<Costs> {
    let words = text.lines().filter_map(|line| line.split_once("cost: ")?.1.trim().split_once(' '));
    let mut costs: Costs = words.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?))).collect();
    let used = MEMORY_BYTES.checked_sub(*costs.get("free")?)?;
    costs.insert("used".to_owned(), used >> 10);
    ROWS.iter().all(|row| costs.contains_key(row.key)).then_some(costs)
}

fn table(size: &str, linux: &str, place: usize, theirs: &Costs, ours: &Costs) -> String {
    let mut text = format!("| {size} | {linux} | ours | goal |\n|---|--:|--:|--:|\n");
    for Row { key, name, goals } in &ROWS {
        let goal = goals[place].map_or("".to_owned(), |goal| goal.to_string());
        let _ = writeln!(text, "| {name} | {} | {} | {goal} |", theirs[*key], ours[*key]);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_is_read() {
        let mut text = "[1.0] x\r\ncost: free 2147483000\r\n".to_owned();
        assert_eq!(read(&text), None);
        ["touch", "fork", "munmap", "mprotect", "boot"].iter().for_each(|key| text += &format!("cost: {key} 7\r\n"));
        let costs = read(&text).expect("all is there");
        assert_eq!((costs["touch"], costs["used"]), (7, 0));
        assert!(table("4k", "linux", 0, &costs, &costs).contains("| munmap, a page | 7 | 7 | 120 |"));
    }
}
