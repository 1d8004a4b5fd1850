//! A large linear map of pages, in a sparse image: every leaf is read, and nothing is kept that need not be. And a plan of one.
//!
//! A plain run maps 1 GiB. `VELLUM_SCALE_GIB=64 cargo test --release --test scale` maps 64 GiB, 16 million leaves; the
//! image stays in `target/tmp` for whoever wants to measure.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: u64 = 0x1000;
const ENTRIES: u64 = 512;
const GIB: u64 = 1 << 30;
/// Normal memory, read-write, never executable, accessed, inner shareable.
const LEAF: u64 = 0x0060_0000_0000_0703;
const TABLE: u64 = 0b11;
/// TTBR1 at the start of the image; 4 KiB pages and 48 bits in both halves.
const TTBR1: &str = "0x40000000";
const TCR: &str = "0x15b5103510";
const BASE: u64 = 0x4000_0000;

/// Writes the image: the root, one table for each level below, then all tables of pages.
fn write_image(path: &Path, gib: u64) {
    let file = File::create(path).expect("a file");
    file.set_len(gib * GIB).expect("a sparse file");
    let put = |table: u64, index: u64, descriptor: u64| {
        file.write_all_at(&descriptor.to_le_bytes(), table * PAGE + index * 8).expect("written");
    };
    let (level1, level2) = (1, 2);
    let level3 = level2 + gib;
    put(0, 0, (BASE + level1 * PAGE) | TABLE);
    for slot in 0..gib {
        put(level1, slot, (BASE + (level2 + slot) * PAGE) | TABLE);
        for index in 0..ENTRIES {
            let table = level3 + slot * ENTRIES + index;
            put(level2 + slot, index, (BASE + table * PAGE) | TABLE);
            let first = (slot * ENTRIES + index) * ENTRIES;
            let pages: Vec<u8> =
                (first..first + ENTRIES).flat_map(|page| ((BASE + page * PAGE) | LEAF).to_le_bytes()).collect();
            file.write_all_at(&pages, table * PAGE).expect("written");
        }
    }
}

fn vellum(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vellum")).args(arguments).output().expect("vellum runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_leaf_of_a_large_linear_map_is_seen() {
    let asked = std::env::var("VELLUM_SCALE_GIB").ok().and_then(|text| text.parse().ok());
    let gib: u64 = asked.unwrap_or(1);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("linear-map-{gib}-gib"));
    write_image(&path, gib);
    let source = format!("raw:{}@{BASE:#x}", path.display());
    let machine = ["dump", &source, "--ttbr1", TTBR1, "--tcr", TCR];
    let text = vellum(&machine);
    let first = text.lines().next().unwrap_or("");
    assert!(first.starts_with(&format!("0xffff000000000000-{:#018x} ", 0xffff_0000_0000_0000 + gib * GIB)), "{first}");
    assert!(first.contains(&format!("{gib}G PTE       RW NX SHD AF            UXN    MEM/NORMAL")), "{first}");
    let totals = vellum(&[&machine[..], &["--json"]].concat());
    let expected = format!("\"leaves\":{},", gib * ENTRIES * ENTRIES);
    assert!(totals.lines().last().is_some_and(|line| line.contains(&expected)), "{totals}");
    assert_eq!(totals.lines().count(), 3, "a root, one run of leaves, the totals");
    if asked.is_none() {
        std::fs::remove_file(path).expect("removed");
    }
}

/// What a command line of the shell's says, and how much processor time it took, to which no other load of the host adds; what
/// `times` tells of children.
fn timed(line: &str) -> (String, f64) {
    let script = format!("{line}; echo \"ended with $?\"; times");
    let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
    let text = String::from_utf8(output.stdout).expect("text");
    let last = text.lines().last().expect("times");
    let seconds = last.split_whitespace().map(|time| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').expect("minutes");
        minutes.parse::<f64>().expect("a number") * 60.0 + seconds.parse::<f64>().expect("a number")
    });
    let seconds = seconds.sum();
    assert!(output.status.success() && seconds > 0.0, "{text}");
    (text, seconds)
}

#[test]
fn four_tebibytes_are_planned_in_under_a_second() {
    let (text, seconds) = timed(&format!("'{}' plan --memory 4T", env!("CARGO_BIN_EXE_vellum")));
    assert!(text.contains("tables of level 3") && seconds < 1.0, "{seconds} {text}");
}

/// Of every three pages one can be written, one only read, and one is not there; where that is asked for, behind a block of all the memory.
fn write_mixed(path: &Path, pages: u64, with_block: bool) {
    let file = File::create(path).expect("a file");
    let tables = pages.div_ceil(ENTRIES);
    file.set_len((3 + tables) * PAGE).expect("a file of that size");
    let put = |table: u64, index: u64, descriptor: u64| {
        file.write_all_at(&descriptor.to_le_bytes(), table * PAGE + index * 8).expect("written");
    };
    put(0, 0, (BASE + PAGE) | TABLE);
    if with_block {
        put(1, 0, BASE | LEAF & !0b10);
    }
    put(1, 1, (BASE + 2 * PAGE) | TABLE);
    for table in 0..tables {
        put(2, table, (BASE + (3 + table) * PAGE) | TABLE);
        let leaf = |page: u64| match page % 3 {
            2 => 0,
            kind => (BASE + page * PAGE) | LEAF | kind << 7,
        };
        let pages: Vec<u8> = (0..ENTRIES).flat_map(|index| leaf(table * ENTRIES + index).to_le_bytes()).collect();
        file.write_all_at(&pages, (3 + table) * PAGE).expect("written");
    }
}

/// As long as each read-only page was held against all memory before, this took several times as long for twice the pages.
#[test]
fn a_check_and_a_report_of_many_small_runs_take_no_time_for_their_pairs() {
    const PAGES: u64 = 120_000;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    for (command, with_block) in [("check", true), ("report", false)] {
        let path = folder.join(format!("mixed-{command}"));
        write_mixed(&path, PAGES, with_block);
        let more =
            if command == "report" { format!("-o '{}'", folder.join("mixed.html").display()) } else { String::new() };
        let line = format!(
            "'{}' {command} 'raw:{}@{BASE:#x}' --ttbr1 {TTBR1} --tcr {TCR} {more}",
            env!("CARGO_BIN_EXE_vellum"),
            path.display()
        );
        let (text, seconds) = timed(&line);
        std::fs::remove_file(path).expect("removed");
        assert!(seconds < 8.0, "{command}: {seconds} s\n{text}");
        println!("{command}: {seconds} s");
    }
}

/// A million lines take 0.45 s of a release build (MEASURED.md), and this build takes some 20 times as long for each.
#[test]
fn a_hundred_thousand_lines_are_compared_in_seconds() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let paths = ["lines-before", "lines-after"].map(|name| folder.join(name));
    for (path, changed) in paths.iter().zip([false, true]) {
        let line = |page: u64| {
            let words = if changed && page % 1000 == 7 {
                "RW x "
            } else if page % 2 == 1 {
                "RW NX"
            } else {
                "ro NX"
            };
            let start = 0xffff_0000_0000_0000 + page * PAGE;
            format!("{start:#018x}-{:#018x}  4K PTE  {words} SHD AF  UXN  MEM/NORMAL\n", start + PAGE)
        };
        std::fs::write(path, (0..100_000).map(line).collect::<String>()).expect("written");
    }
    let [one, other] = paths.each_ref().map(|path| path.display());
    let (text, seconds) = timed(&format!("'{}' diff '{one}' '{other}'", env!("CARGO_BIN_EXE_vellum")));
    paths.iter().for_each(|path| std::fs::remove_file(path).expect("removed"));
    assert!(
        text.lines().any(|line| line.split_whitespace().eq(["leaves", "100000", "100000", "="])) && seconds < 4.0,
        "{seconds} s\n{text}"
    );
    println!("diff: {seconds} s");
}
