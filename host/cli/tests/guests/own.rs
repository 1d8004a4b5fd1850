//! This project's kernel: what it prints of its linear map is what its memory shows from outside, byte for byte.

use std::path::PathBuf;

use crate::guest::{Guest, Options};
use crate::report::Report;
use crate::vellum;

/// Page size asked for, CPU model, and the width of virtual addresses that the two give.
const BOOTS: [(&str, &str, u32); 16] = [
    ("4k", "max,pauth-impdef=on", 52),
    ("16k", "max,pauth-impdef=on", 52),
    ("64k", "max,pauth-impdef=on", 52),
    ("4k", "max,pauth-impdef=on,lpa2=off", 48),
    ("16k", "max,pauth-impdef=on,lpa2=off", 48),
    ("4k", "cortex-a72", 48),
    ("64k", "cortex-a72", 48),
    ("16k", "neoverse-n1", 48),
    ("64k", "neoverse-n1", 48),
    ("4k", "max,pauth-impdef=on", 39),
    ("4k", "max,pauth-impdef=on", 48),
    ("16k", "max,pauth-impdef=on", 36),
    ("16k", "max,pauth-impdef=on", 47),
    ("16k", "max,pauth-impdef=on", 48),
    ("64k", "max,pauth-impdef=on", 42),
    ("64k", "max,pauth-impdef=on", 48),
];

pub(crate) fn run(kernel: PathBuf, report: &mut Report) {
    for (page_size, cpu, bits) in BOOTS {
        let model = cpu.replace(",pauth-impdef=on", "");
        let name = format!("outside equals inside, {page_size}, {bits} bits, {model}");
        report.add(&name, compare(&kernel, page_size, cpu, bits));
    }
}

fn compare(kernel: &std::path::Path, page_size: &str, cpu: &str, bits: u32) -> Result<(), String> {
    let options = Options {
        kernel: kernel.to_path_buf(),
        initramfs: None,
        append: format!("arm64.pagesize={page_size} vellum.vabits={bits}"),
        cpu: cpu.to_owned(),
        cpus: 2,
        machine: "",
        // The machine has ended, and stands still with all its memory.
        is_ready: |line| line.starts_with("verdict: "),
    };
    let (guest, said) = Guest::boot(&options)?;
    let inside: Vec<&String> = said
        .iter()
        .skip_while(|line| *line != "# linear map")
        .skip(1)
        .take_while(|line| !line.starts_with("# "))
        .collect();
    if inside.len() < 3 {
        return Err(format!("the kernel printed no linear map:\n{}", said.join("\n")));
    }
    let base = u64::MAX << bits;
    let range = format!("{base:#x}-{:#x}", u64::MAX << (bits - 1));
    let outside = vellum(&["dump", &guest.gdb(), "--markers", "linux", "--range", &range])?.0;
    let stopped = vellum(&["dump", &guest.gdb(), "--ram", &guest.ram(), "--markers", "linux", "--range", &range])?.0;
    let inside: String = inside.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    if outside != inside || stopped != inside {
        return Err(format!("inside:\n{inside}\noutside, by the stub:\n{outside}\noutside, by the file:\n{stopped}"));
    }
    clean(&guest)
}

/// Our own kernel has no finding but costs.
fn clean(guest: &Guest) -> Result<(), String> {
    let dangers = ["wx", "alias", "types", "contiguous", "reserved", "outside", "loop", "user-wx"].join(",");
    match vellum(&["check", &guest.gdb(), "--part", "all", "--fail-on", &dangers])? {
        (_, 0) => Ok(()),
        (text, _) => Err(text),
    }
}
