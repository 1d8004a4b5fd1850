//! `cargo xtask bench tlbis`: which TLBIs one workload takes of our kernel, and what a part of a folio costs.
//!
//! ```text
//! programs/parts ──page size × folios × level of FEAT_BBM──▶ its lines, and the kernel's count ──▶ a table; with --record, a file
//! ```

use std::{
    ffi::{OsStr, OsString},
    fmt::Write,
};

use clap::Args;
use fs_err as fs;

use crate::{
    bare::Program,
    boot::{self, Programs, guest, options},
    cargo,
    outcome::{Failure, Status},
    terminal,
};

/// TLBIs of one workload on our kernel, by kind, and the cost of a part of a folio
///
/// Parts of folios that change or go, a fork, an exec, the end, at each page size, policy of folios
/// and level of FEAT_BBM. One CPU, 1 GiB, one nanosecond of the emulator's clock for each
/// instruction: a run is the same each time.
#[derive(Args)]
pub(super) struct Options {
    /// Also write bench/results/tlbis.md
    #[arg(long)]
    record: bool,
}

const SIZES: [&str; 3] = ["4k", "16k", "64k"];
const FOLIOS: [&str; 3] = ["never", "group", "block"];
/// What the table says of a row, and the words for it: levels of FEAT_BBM; and level 2 in place,
/// where EL1's invalidations are said to end conflicts.
const POLICIES: [(&str, &str); 5] = [
    ("0", "vellum.bbm=0"),
    ("1", "vellum.bbm=1"),
    ("2", "vellum.bbm=2"),
    ("2, EL1 trusted", "vellum.bbm=2 vellum.trust-el1=yes"),
    ("3", "vellum.bbm=3"),
];
const RESULTS: &str = "bench/results/tlbis.md";
/// The program's lines, in the order of the table.
const KEYS: [&str; 3] = ["cut", "again", "whole"];

const HEAD: &str = "# TLBIs of programs, by kind\n\n\
    The program `parts`, one CPU, QEMU with `-icount`: 32 groups of pages are touched; of each one page is made read-only, and writable\n\
    again, and written, and goes (DONTNEED), and is written again; a fork whose child writes to each; an exec; the ends. The kernel's own\n\
    count of all of the boot, and instructions of one `mprotect` that cuts a group, of the one that gives the rights back, and of the\n\
    write after which the group may be whole. At level 2 leaves change size in place where EL1 is trusted\n\
    (`vellum.trust-el1=yes`).\n\n\
    | pages | vellum.folio | vellum.bbm | by address | by range | of a space | cut | rights back | write |\n\
    |---|---|---|--:|--:|--:|--:|--:|--:|\n";

/// Entry of `cargo xtask bench tlbis`.
pub(super) fn main(options: &Options) -> Result<Status, Failure> {
    let built = Programs::build(&[Program::Kernel], &mut |line| eprintln!("{line}"))?;
    let mut text = HEAD.to_owned();
    for size in SIZES {
        for folios in FOLIOS {
            for (policy, words) in POLICIES {
                let words = format!("vellum.folio={folios} {words}");
                eprintln!("cargo xtask bench: {size}, {words}");
                let numbers = numbers(&said(size, &words, &built)?)?;
                let _ = writeln!(text, "| {size} | {folios} | {policy} |{numbers}");
            }
        }
    }
    terminal::print(&text);
    if options.record {
        text += "\nMade by `cargo xtask bench tlbis --record`.\n";
        let path = cargo::workspace().join(RESULTS);
        fs::write(path, text)?;
    }
    Ok(Status::Passed)
}

/// What the machine says.
fn said(size: &str, words: &str, built: &Programs) -> Result<String, Failure> {
    let options = ["--cpus", "1", "--memory", "1G", "--icount", "--init", "parts", "--page-size", size, "--append"];
    let all: Vec<OsString> = options.iter().map(OsStr::new).chain([words.as_ref()]).map(Into::into).collect();
    let options = options::parse(&all)?;
    let (mut command, _files) = boot::command(&options, built)?;
    let ended = guest::run(&mut command, None, &mut |_| {})?;
    Ok(String::from_utf8_lossy(&ended.output).into_owned())
}

/// The cells of a row.
fn numbers(text: &str) -> Result<String, Failure> {
    let line = |begins: &str| text.lines().find_map(|line| line.trim().strip_prefix(begins));
    let costs = KEYS.map(|key| line(&format!("cost: {key} ")));
    let told = line("init: TLBIs: ").map(|told| told.split(", ").map(|word| word.split(' ').next()));
    let cells: Option<Vec<&str>> = told.into_iter().flatten().chain(costs).collect();
    match cells.filter(|cells| cells.len() == 3 + KEYS.len() && line("init: ended with status 0").is_some()) {
        Some(cells) => Ok(cells.iter().map(|cell| format!(" {cell} |")).collect()),
        None => {
            let last = text.lines().last().unwrap_or_default();
            Err(Failure::failed(format!("the program did not tell all: {last}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_program_and_kernel_say() {
        let mut text = "init: TLBIs: 1 by address, 2 by range, 3 of a whole space\r\n".to_owned();
        text += "cost: cut 4\r\ncost: again 5\r\ncost: whole 6\r\n";
        assert!(numbers(&text).is_err());
        assert_eq!(
            numbers(&(text + "init: ended with status 0\r\n")).expect("all is there"),
            " 1 | 2 | 3 | 4 | 5 | 6 |"
        );
    }
}
