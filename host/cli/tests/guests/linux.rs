//! An arm64 Linux that no one here wrote: every source gives the same page tables.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::guest::{Guest, Options};
use crate::report::Report;
use crate::{has_page, text, vellum};

/// One memory order for all: some sources have no MAIR, and the words must be the same.
const MAIR: [&str; 2] = ["--mair", "0x40044f0ff"];

pub(crate) fn run(kernel: PathBuf, initramfs: PathBuf, inside: Option<PathBuf>, report: &mut Report) {
    let full = options(&kernel, &initramfs, "rodata=full", "");
    match Guest::boot(&full) {
        Ok((guest, _)) => sources(&guest, &full, report),
        Err(why) => report.add("a guest boots", Err(why)),
    }
    report.add("a kernel at EL2", host(&options(&kernel, &initramfs, "rodata=full", ",virtualization=on")));
    // Newer kernels map pages whatever `rodata=` says, unless their CPUs tolerate that a live leaf changes size.
    if std::env::var_os("VELLUM_HAS_BLOCKS").is_some() {
        report.add("blocks and pages", blocks_and_pages(&full, &options(&kernel, &initramfs, "rodata=on", "")));
    }
    match inside {
        Some(inside) => report.add("kcore", kcore(&options(&kernel, &inside, "rodata=full", ""))),
        None => report.ignore("kcore", "no static vellum can be built here"),
    }
}

fn options(kernel: &Path, initramfs: &Path, rodata: &str, machine: &'static str) -> Options {
    Options {
        kernel: kernel.to_path_buf(),
        initramfs: Some(initramfs.to_path_buf()),
        append: format!("console=ttyAMA0 nokaslr quiet {rodata}"),
        cpu: "max,pauth-impdef=on".to_owned(),
        cpus: 2,
        machine,
        is_ready: |line| line == "guest: ready",
    }
}

/// The text of a source, in Linux's memory order and without markers.
fn dump(source: &[&str]) -> Result<String, String> {
    let words = [&["dump"], source, &MAIR, &["--markers", "none"]].concat();
    let (text, status) = vellum(&words)?;
    if status == 0 { Ok(text) } else { Err(format!("vellum {}: findings: {text}", words.join(" "))) }
}

/// Every source of the same guest, held against its shared memory.
fn sources(guest: &Guest, options: &Options, report: &mut Report) {
    let reference = match dump(&["--ram", &guest.ram(), &guest.gdb()]) {
        Ok(reference) => reference,
        Err(why) => return report.add("shared memory", Err(why)),
    };
    report.add("shared memory", text::has_linear_map(&reference));
    let image = text::image(&reference, &options.kernel);
    let hold = |report: &mut Report, name: &str, source: &[&str]| {
        let result = dump(source).and_then(|text| text::same(&reference, &text, image.clone()?));
        report.add(name, result);
    };
    hold(report, "gdb stub", &[&guest.gdb()]);
    hold(report, "gdb stub, again", &[&guest.gdb()]);
    hold(report, "raw memory", &[&guest.raw()]);
    hold(report, "raw memory, searched", &[&guest.raw(), "--search"]);
    let core = guest.save_core();
    match &core {
        Ok(core) => {
            hold(report, "dump-guest-memory", &[&format!("core:{core}")]);
            hold(report, "dump-guest-memory, searched", &[&format!("core:{core}"), "--search"]);
        }
        Err(why) => report.add("dump-guest-memory", Err(why.clone())),
    }
    report.add("the guest goes on", guest.is_running());
    for signal in ["-INT", "-TERM", "-HUP"] {
        report.add(&format!("a reader that gets {signal} lets the guest go on"), interrupt(guest, signal));
    }
    report.add("check", check(&guest.raw()));
    report.add("check, by registers", check(&guest.gdb()).and_then(|()| aliases(&guest.gdb())));
    report.add("stats", text::page_bytes(&options.kernel).and_then(|page| stats(&guest.raw(), page)));
    report.add("a page", has_page(guest));
    report.add("a plan of its memory", planned(&guest.gdb(), "pages", &["tables", "leaves"]));
    hold(report, "QMP", &[&guest.qmp()]);
    report.add("QMP reads registers", has_registers(&guest.qmp(), &guest.ram()));
    hold(report, "the gdb stub is there after QMP", &[&guest.gdb()]);
    report.add("a gdb stub taken for QMP", no_greeting(guest));
    report.add("the guest still goes on", guest.is_running());
}

/// A search by the stub takes a minute; a signal ends it in order, with the guest running.
fn interrupt(guest: &Guest, signal: &str) -> Result<(), String> {
    let error = |error: std::io::Error| error.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
    let mut child = command.args(["dump", &guest.gdb(), "--search"]).stderr(Stdio::piped()).spawn().map_err(error)?;
    let said = child.stderr.take().ok_or("no standard error")?;
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    // Once it says that it searches, the guest is stopped.
    if !lines.any(|line| line.contains("searching")) {
        return Err("it does not search".to_owned());
    }
    Command::new("kill").args([signal, &child.id().to_string()]).status().map_err(error)?;
    let rest: Vec<String> = lines.collect();
    let status = child.wait().map_err(error)?;
    if status.code() != Some(2) || !rest.iter().any(|line| line.contains("interrupted")) {
        return Err(format!("{status}: {}", rest.join("\n")));
    }
    guest.is_running()
}

/// Registers tell the root; without them it would be vmcoreinfo.
fn has_registers(source: &str, ram: &str) -> Result<(), String> {
    let (records, _) = vellum(&["dump", source, "--ram", ram, "--json", "--range", "0-0x1000"])?;
    if records.contains("\"origin\":\"registers of CPU 0, 1\"") { Ok(()) } else { Err(records) }
}

/// Whoever connects to a stub stops the guest: one that was looking for QMP lets it go on.
fn no_greeting(guest: &Guest) -> Result<(), String> {
    let source = guest.gdb().replace("qemu:unix:", "qmp:");
    match vellum(&["dump", &source]) {
        Err(line) if line.contains("no QMP greeting") => guest.is_running(),
        other => Err(format!("expected that no QMP greets: {other:?}")),
    }
}

/// A Linux is not clean (its device tree stays writable in the linear map), and nothing in it breaks the architecture.
fn check(source: &str) -> Result<(), String> {
    let (text, status) = vellum(&["check", source, "--json"])?;
    let kinds = ["wx", "contiguous", "reserved", "outside", "loop"];
    let bad = text.lines().find(|line| kinds.iter().any(|kind| line.contains(&format!("\"kind\":\"{kind}\""))));
    match (bad, status) {
        (Some(line), _) => Err(format!("a kernel of a distribution has none of these: {line}")),
        (None, 1) => Ok(()),
        (None, status) => Err(format!("status {status}, expected 1: {text}")),
    }
}

/// What is read-only in one place and writable in another is the device tree and what lies beside it, in a window of 2 MiB at
/// most. Where permissions are indirect, bits 7 and 51 alone would find others, or none.
fn aliases(source: &str) -> Result<(), String> {
    let (text, _) = vellum(&["check", source, "--json"])?;
    let ends = |line: &str| {
        let number = |key: &str| {
            let digits = line.split_once(&format!("\"{key}\":\"0x"))?.1.split('"').next()?;
            u64::from_str_radix(digits, 16).ok()
        };
        Some((number("input")?, number("end")?))
    };
    let found: Vec<(u64, u64)> =
        text.lines().filter(|line| line.contains("\"kind\":\"alias\"")).filter_map(ends).collect();
    let (first, last) = (found.iter().map(|ends| ends.0).min(), found.iter().map(|ends| ends.1).max());
    match (first, last) {
        (Some(first), Some(last)) if last - first <= 2 << 20 => Ok(()),
        _ => Err(format!("expected aliases of the device tree alone: {found:x?}")),
    }
}

/// A 2 GiB guest whose linear map is of pages has as many leaves, some more, and tables for them: with 4K pages about 525,000
/// in 1,040.
fn stats(source: &str, page_bytes: u64) -> Result<(), String> {
    let (text, _) = vellum(&["dump", source, "--json"])?;
    let totals = text.lines().last().unwrap_or("");
    let number = |key: &str| {
        let rest = totals.split_once(&format!("\"{key}\":"))?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let pages = (2 << 30) / page_bytes;
    let full = pages / (page_bytes / 8);
    let is_about = |number: Option<u64>, least: u64| number.is_some_and(|it| (least..least * 5 / 4).contains(&it));
    if is_about(number("leaves"), pages) && is_about(number("tables"), full) {
        Ok(())
    } else {
        Err(format!("expected about {pages} leaves in about {full} tables: {totals}"))
    }
}

/// What is planned for a kernel's memory, by the policy that is nearest to its own, misses little of what it has. Linux leaves some of
/// its memory out of its map, cuts leaves where its image's parts meet, and keeps its first pages as they were.
fn planned(source: &str, policy: &str, figures: &[&str]) -> Result<(), String> {
    const MOST_PERCENT: f64 = 5.0;
    let (text, _) = vellum(&["plan", "--memory", source, "--policy", policy, "--json"])?;
    let columns = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    // The column of its own page size alone tells of the kernel as it is.
    let errors: Vec<serde_json::Value> =
        columns.map(|column| column["now"].clone()).filter(|now| !now.is_null()).collect();
    let is_near = |figure: &&str| {
        errors.iter().all(|now| now[format!("{figure}_percent_off")].as_f64().is_some_and(|off| off <= MOST_PERCENT))
    };
    if errors.len() == 1 && figures.iter().all(is_near) { Ok(()) } else { Err(text) }
}

/// A kernel that runs at EL2 has its upper half there, with TCR_EL2 as TCR_EL1 has it.
fn host(options: &Options) -> Result<(), String> {
    let (guest, _) = Guest::boot(options)?;
    let (by_stub, by_search) = (dump(&[&guest.gdb()])?, dump(&[&guest.raw(), "--search"])?);
    let (records, _) = vellum(&["dump", &guest.gdb(), "--json"])?;
    if !records.lines().next().is_some_and(|root| root.contains("\"TTBR1_EL2\"")) {
        return Err(format!("expected the root of TTBR1_EL2: {}", records.lines().next().unwrap_or("")));
    }
    text::has_linear_map(&by_stub)?;
    text::same(&by_stub, &by_search, text::image(&by_stub, &options.kernel)?)
}

/// `rodata=full` maps pages, `rodata=on` blocks; `vellum diff` says what that costs.
fn blocks_and_pages(full: &Options, on: &Options) -> Result<(), String> {
    let (pages, _) = Guest::boot(full)?;
    let (blocks, _) = Guest::boot(on)?;
    let (one, other) = (dump(&[&pages.raw()])?, dump(&[&blocks.raw()])?);
    let has_blocks =
        |text: &str| text::linear_map(text).filter(|line| line.contains(" BLK ") && line.contains(" RW ")).count();
    if has_blocks(&one) > 0 || has_blocks(&other) == 0 {
        return Err(format!("rodata=full has {} writable blocks, rodata=on {}", has_blocks(&one), has_blocks(&other)));
    }
    planned(&blocks.gdb(), "largest", &["tables"])?;
    let (text, status) = vellum(&["diff", &pages.raw(), &blocks.raw()])?;
    if status == 1 && text.contains("resized") && text.contains("bytes of tables") {
        Ok(())
    } else {
        Err(format!("status {status}, expected 1 and ranges that are resized: {text}"))
    }
}

/// The guest reads itself: what it prints is what its memory shows from outside.
fn kcore(options: &Options) -> Result<(), String> {
    let (guest, console) = Guest::boot(options)?;
    if !console.contains(&"guest: vellum ended with 0".to_owned()) {
        return Err(format!("vellum in the guest: {}", console.join("\n")));
    }
    let dumped: Vec<&str> = console.iter().filter_map(|line| line.strip_prefix("guest: dump ")).collect();
    let inside = dumped.join("\n") + "\n";
    let outside = dump(&["--ram", &guest.ram(), &guest.gdb()])?;
    text::same(&outside, &inside, text::image(&outside, &options.kernel)?)
}
