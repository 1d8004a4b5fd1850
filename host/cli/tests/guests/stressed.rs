//! Our kernel after a stress: its linear map is what it is without one, leaf for leaf, by `vellum diff`; and what the kernel counts of it
//! is what `vellum dump --stats` finds in memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::guest::{Guest, Options};
use crate::report::Report;
use crate::vellum;

const PAGE_SIZES: [&str; 3] = ["4k", "16k", "64k"];
/// The linear map of QEMU's best CPU: half of 52 bits.
const RANGE: &str = "0xfff0000000000000-0xfff8000000000000";
/// Where a counter stands among the kernel's, and where QEMU's virt machine has its memory.
const SPLITS: u64 = 2;
const BASE: u64 = 0x4000_0000;

pub(crate) fn run(kernel: &Path, report: &mut Report) {
    for page_size in PAGE_SIZES {
        let stressed = boot(kernel, page_size, "vellum.stress=400 vellum.report=json");
        let healed = stressed.as_ref().map_err(Clone::clone).and_then(|(guest, _)| healed(kernel, page_size, guest));
        report.add(&format!("a map that has healed is as after boot, {page_size}"), healed);
        let counted = stressed.and_then(|(guest, said)| counted(&guest, &said));
        report.add(&format!("counters inside and outside, {page_size}"), counted);
    }
}

/// The kernel with CPUs that resize in place, when all is done.
fn boot(kernel: &Path, page_size: &str, append: &str) -> Result<(Guest, Vec<String>), String> {
    Guest::boot(&Options {
        kernel: kernel.to_path_buf(),
        initramfs: None,
        append: format!("arm64.pagesize={page_size} vellum.bbm=3 {append}"),
        cpu: "max,pauth-impdef=on".to_owned(),
        cpus: 4,
        machine: "",
        is_ready: |line| line.starts_with("verdict: "),
    })
}

/// No difference to a boot without a stress; and a difference of one permission is one.
fn healed(kernel: &Path, page_size: &str, stressed: &Guest) -> Result<(), String> {
    let after = dumped(stressed)?;
    for (append, expected) in [("", 0), ("rodata=off", 1)] {
        let guest = boot(kernel, page_size, append)?.0;
        let (text, status) = vellum(&["diff", &dumped(&guest)?, &after])?;
        if status != expected {
            return Err(format!("vellum diff to a boot with `{append}`: {status}, expected {expected}:\n{text}"));
        }
    }
    Ok(())
}

/// A dump of a guest's linear map, saved.
fn dumped(guest: &Guest) -> Result<String, String> {
    let path = guest.path("linear.json");
    let text = vellum(&["dump", &guest.gdb(), "--json", "--range", RANGE])?.0;
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Each counter that the kernel has printed is found by the stub, and in a core; one that is wrong is noticed.
fn counted(guest: &Guest, said: &[String]) -> Result<(), String> {
    let sections = said.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let inside = sections.into_iter().find(|section| section["section"] == "linear map counters");
    let inside = inside.ok_or_else(|| format!("the kernel has printed no counters:\n{}", said.join("\n")))?;
    let core = guest.save_core()?;
    for source in [guest.gdb(), format!("core:{core}")] {
        let outside = vellum(&["dump", &source, "--stats"])?.0;
        let lines = outside.lines().skip_while(|line| !line.starts_with("linear map, counted inside")).skip(1);
        let pairs: Vec<(&str, &str)> = lines.filter_map(|line| line.trim().split_once(' ')).collect();
        let wrong = |(name, value): &&(&str, &str)| inside[name].as_u64() != value.trim().parse().ok();
        if pairs.len() < 18 || pairs.iter().any(|pair| wrong(&pair)) {
            return Err(format!("{source}:\n{outside}\ninside: {inside}"));
        }
    }
    tampered(guest)
}

/// A split more than there was.
fn tampered(guest: &Guest) -> Result<(), String> {
    let path = guest.ram().split('@').next().unwrap_or_default().to_owned();
    let ram = File::options().read(true).write(true).open(&path).map_err(|error| error.to_string())?;
    let word = |at: u64| -> Result<u64, String> {
        let mut bytes = [0; 8];
        ram.read_exact_at(&mut bytes, at).map_err(|error| error.to_string())?;
        Ok(u64::from_le_bytes(bytes))
    };
    let is_image = |at: &u64| word(at + 64).is_ok_and(|it| it == u64::from_le_bytes(*b"VELLUMLM"));
    let image = (0..64 << 20).step_by(2 << 20).find(is_image).ok_or("the image is nowhere")?;
    let record = image + word(image + 72)?;
    let splits = image + word(record + 32)? - 0xffff_ffff_8000_0000 + 8 * SPLITS;
    ram.write_all_at(&(word(splits)? + 1).to_le_bytes(), splits).map_err(|error| error.to_string())?;
    let outside = vellum(&["dump", &format!("raw:{path}@{BASE:#x}"), "--stats"])?.0;
    match outside.lines().any(|line| line.contains("its kernel counts") && line.contains("one is wrong")) {
        true => Ok(()),
        false => Err(format!("nobody misses a table:\n{outside}")),
    }
}
