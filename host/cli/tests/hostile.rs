//! Sources that are wrong, broken or made to harm: one clear line or findings, never a crash, never endless.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// 4 KiB pages and 48 bits, the root at the start of a raw image.
const BY_HAND: [&str; 4] = ["--ttbr1", "0x0", "--tcr", "0x15b5103510"];

struct Ended {
    status: i32,
    out: String,
    said: String,
}

fn vellum(arguments: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_vellum")).args(arguments).output().expect("vellum runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { status: output.status.code().unwrap_or(-1), out: text(output.stdout), said: text(output.stderr) }
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{}-{name}", std::process::id()));
    fs::write(&path, bytes).expect("written");
    path
}

/// An image of words: (table, index, word).
fn image(tables: usize, words: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; tables * 4096];
    for &(table, index, word) in words {
        let at = table * 4096 + index * 8;
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// What cannot be read ends with status 2 and one line that names the source and says what was expected.
#[test]
fn what_cannot_be_read_is_one_line() {
    let mut elf = vec![0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let mut arm = elf.clone();
    arm[18] = 183;
    let mut many = arm.clone();
    many[32..40].copy_from_slice(&64u64.to_le_bytes());
    many[54] = 56;
    many[56..58].copy_from_slice(&0xfff0u16.to_le_bytes());
    let mut endless = many.clone();
    endless[56..58].copy_from_slice(&0xffffu16.to_le_bytes());
    let cases: [(&str, &[u8], &str, &str); 10] = [
        ("empty", b"", "core:", "not an ELF file, expected an ELF core or a kdump"),
        ("text", b"hello", "core:", "plain memory is raw:FILE@BASE"),
        (
            "kdump",
            b"KDUMP   ",
            "core:",
            "its header: unexpected end of file: the file ends too early, copy or make it again",
        ),
        ("flattened", b"makedumpfile\0\0\0\0", "core:", "the file ends too early, copy or make it again"),
        ("x86", &elf, "core:", "machine 0"),
        ("headless", &arm, "core:", "program headers of 0 bytes"),
        ("short", &many, "core:", "the file ends too early, copy or make it again"),
        ("endless", &endless, "core:", "0 program headers"),
        ("raw", b"", "raw:", "the file is empty, expected a memory image: save it again"),
        (
            "zeros",
            &[0; 8192],
            "raw:",
            "give --ttbr1 and --tcr (to dump, check, report, plan), or a source with registers",
        ),
    ];
    for (name, bytes, kind, expected) in cases {
        let path = file(name, bytes);
        let base = if kind == "raw:" { "@0x40000000" } else { "" };
        let ended = vellum(&["dump", &format!("{kind}{}{base}", path.display())]);
        let line = ended.said.lines().last().unwrap_or("");
        assert_eq!((ended.status, ended.out.as_str()), (2, ""), "{name}: {}", ended.said);
        assert!(line.starts_with("vellum: ") && line.contains(expected), "{name}: {}", ended.said);
        assert!(line.ends_with("(see vellum dump --help)"), "{name}: {}", ended.said);
        fs::remove_file(path).expect("removed");
    }
    for (source, expected) in [
        ("core:/nonexistent", "name a file that is there"),
        ("core:/", "name a file in it"),
        ("qemu:unix:/nonexistent", "begin QEMU with -gdb unix:/nonexistent,server=on,wait=off"),
        ("qemu:localhost:1", "begin QEMU with -gdb tcp:localhost:1"),
        ("qmp:/nonexistent", "begin QEMU with -qmp unix:/nonexistent,server=on,wait=off"),
        ("raw:/dev/null@0", "empty"),
        ("raw:/@0", "a folder, expected a memory image: name a file in it"),
        ("kcore", if cfg!(target_arch = "aarch64") { "" } else { "arm64" }),
    ] {
        if expected.is_empty() {
            continue;
        }
        let ended = vellum(&["dump", source]);
        assert!(ended.status == 2 && ended.said.contains(expected), "{source}: {} {}", ended.status, ended.said);
    }
}

/// An ELF core with these segments: kind, offset, first address, bytes in the file, bytes.
fn core(segments: &[(u32, u64, u64, u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    for (at, value) in [(18, 183), (32, 64), (54, 56), (56, segments.len() as u16)] {
        bytes[at..at + 2].copy_from_slice(&u16::to_le_bytes(value));
    }
    for (kind, offset, start, in_file, size) in segments {
        bytes.extend(kind.to_le_bytes());
        bytes.extend([0; 4]);
        for word in [*offset, 0, *start, *in_file, *size, 0] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

/// Cores of a few bytes that claim to hold more than there is: nothing of it is looked for.
#[test]
fn cores_that_claim_too_much_are_one_line() {
    const BASE: u64 = 0x4000_0000;
    let nowhere = "no segment says which physical memory it holds";
    let nothing = "no page table is known";
    let cases = [
        ("1<<47", core(&[(1, 0, BASE, 0, 1 << 47)]), nothing),
        ("1<<56", core(&[(1, 0, 0, 0, 1 << 56)]), nothing),
        ("beyond", core(&[(1, 0, 1, 0, 1 << 56)]), nowhere),
        ("1<<60", core(&[(1, 0, BASE, 0, 1 << 60)]), nowhere),
        ("last-page", core(&[(1, 0, u64::MAX - 0xffe, 0, 0xffe)]), nowhere),
        ("in-file", core(&[(1, 0, BASE, 1 << 47, 1 << 47)]), nothing),
        ("in-file-last", core(&[(1, u64::MAX - 9, BASE, 1 << 47, 1 << 47)]), nothing),
        (
            "again",
            core(&[(1, 0, BASE, 200, 200), (1, 0, BASE + 0x1000, 200, 200)]),
            "they overlap there, save it again",
        ),
        ("same", core(&[(1, 0, BASE, 200, 200), (1, 0, BASE, 200, 200)]), nothing),
    ];
    for (name, bytes, expected) in cases {
        let path = file(name, &bytes);
        let ended = vellum(&["dump", &format!("core:{}", path.display())]);
        let line = ended.said.lines().last().unwrap_or("");
        assert!(ended.status == 2 && line.contains(expected), "{name}: {} {}", ended.status, ended.said);
        fs::remove_file(path).expect("removed");
    }
}

#[test]
fn what_was_asked_wrongly_says_what_is_right() {
    for (arguments, expected) in [
        (&["dump", "file"][..], "expected qemu:unix:PATH"),
        (&["dump", "raw:file@x"], "no 64-bit number"),
        (&["dump", "raw:f@0", "--range", "2-1"], "is empty"),
        (&["dump", "raw:f@0", "--level", "7"], "-1 to 3"),
        (&["dump", "raw:f@0", "--only", "rw"], "possible values"),
        (&["dump", "raw:f@0", "--ttbr1", "0"], "--tcr"),
        (&["dump", "raw:f@0", "--tcr", "0"], "--tcr alone says nothing"),
        (&["dump", "raw:f@0", "--ram", "g"], "No such file|--ram goes with"),
        (&["check", "raw:f@0", "--fail-on", "all"], "possible values"),
        (&["report", "qmp:a", "qmp:b", "--ram", "g", "-o", "/dev/null"], "cannot be used with"),
        (&["decode", "esr", "one"], "no 64-bit number"),
        (&["encode", "tcr", "t0sz=99"], "does not fit"),
    ] {
        let ended = vellum(arguments);
        let is_told = expected.split('|').any(|words| ended.said.contains(words));
        assert!(ended.status == 2 && is_told, "{arguments:?}: {} {}", ended.status, ended.said);
    }
}

/// Each line says what to do next, whatever the command: about its files, and about what it is asked.
#[test]
fn every_error_says_what_to_do_next() {
    let text = file("words", b"hello\n").display().to_string();
    let bytes = file("octets", b"0x\xff\n").display().to_string();
    let leaf = "0x0000000000000000-0x0000000000001000           4K PTE       RW NX SHD AF\n";
    let [one, two] = [("one", leaf.to_owned()), ("two", format!("# one\n{leaf}# two\n{leaf}"))]
        .map(|(name, dump)| file(name, dump.as_bytes()).display().to_string());
    let absent = "/nonexistent/file";
    let is_there = "name a file that is there";
    let cases: [(&[&str], &str); 37] = [
        (&["check", "core:/nonexistent"], is_there),
        (&["report", "core:/nonexistent", "-o", "/nonexistent/page"], "name another file with -o"),
        (&["report", "core:/nonexistent", "-o", "/dev/null"], is_there),
        (&["report", "raw:f@0", "--called", "a", "--called", "b", "-o", "/dev/null"], "give each source one at most"),
        (&["diff", absent, &text], is_there),
        (&["diff", &text, &text], "expected text of `vellum dump` or kernel_page_tables, or --json"),
        (&["diff", &bytes, &bytes], "expected text, name another file"),
        (&["diff", "/", "/"], "name a file in it"),
        (&["diff", &one, &two], "save both with `vellum dump --json` and the same --part"),
        (&["judge", absent], is_there),
        (&["judge", absent, "--follow"], is_there),
        (&["judge", "/"], "name a file in it"),
        (&["judge", &text], "expected"),
        (&["judge", &bytes], "expected UTF-8"),
        (&["plan"], "--memory"),
        (&["plan", "--memory", "lots"], "no size (256G; K, M, G, T), no banks (0x40000000-0x80000000), no dtb:FILE"),
        (&["plan", "--memory", "5-4"], "such as 0x40000000-0x80000000"),
        (&["plan", "--memory", "4K", "--page-size", "64k"], "give more memory"),
        (&["plan", "--memory", "4T", "--va-bits", "36"], "give more with --va-bits"),
        (&["plan", "--memory", "4G", "--heal"], "say how many pages with --protect N"),
        (&["plan", "--memory", "4G", "-o", "/nonexistent/page"], "name another file with -o"),
        (&["plan", "--memory", "4G", "--ttbr1", "0", "--tcr", "0"], "name one with --memory"),
        (&["plan", "--memory", "dtb:/nonexistent"], is_there),
        (&["plan", "--memory", "core:/nonexistent"], is_there),
        (&["plan", "--memory", "4G", "--page-size", "8k"], "4k, 16k or 64k"),
        (&["audit", "--symbols", absent, "--", "qemu"], is_there),
        (&["audit", "--excuses", absent, "--", "qemu"], is_there),
        (&["audit", "--plugin", &text, "--", absent], is_there),
        (&["audit", "--plugin", &text, "--", "true"], "expected qemu-system-aarch64"),
        (&["audit", "--plugin", absent, "--", "true"], "build it with `cargo build"),
        (&["decode", "weather", "0"], "expected descriptor, esr, tlbi"),
        (&["decode", "tlbi", "everything", "0"], "one is vae1is"),
        (&["encode", "weather"], "expected descriptor, tlbi"),
        (&["encode", "tcr", "size=1"], "expected MTX1"),
        (&["encode", "descriptor"], "needs to=ADDRESS (leaf) or next=ADDRESS (table)"),
        (&["man", "/dev/null"], "name a folder to write to"),
        (&["completions", "cobol"], "possible values"),
    ];
    for (arguments, expected) in cases {
        let ended = vellum(arguments);
        let lines: Vec<&str> = ended.said.lines().collect();
        assert!(ended.status == 2 && ended.said.contains(expected), "{arguments:?}: {} {}", ended.status, ended.said);
        // The command line's own errors end so, on several lines.
        let is_usage = ended.said.contains("For more information, try '--help'");
        let is_one_line = lines.len() == 1 && lines[0].ends_with(&format!("(see vellum {} --help)", arguments[0]));
        assert!(is_usage || is_one_line, "{arguments:?}: {}", ended.said);
    }
    [text, bytes, one, two].iter().for_each(|path| fs::remove_file(path).expect("removed"));
}

#[test]
fn what_is_asked_for_twice_is_planned_once() {
    let plan = |more: &[&str]| vellum(&[&["plan", "--memory", "1G", "--json"], more].concat()).out;
    let once = plan(&["--page-size", "4k", "--policy", "largest"]);
    assert_eq!(once.lines().count(), 1, "{once}");
    assert_eq!(plan(&["--page-size", "4k,4k", "--policy", "largest,largest"]), once);
}

/// Page tables made to harm: they are dumped with findings, or without, and checked, and it ends.
#[test]
fn nasty_page_tables_end_with_findings() {
    let everywhere = |table: usize, word: u64| (0..512).map(move |index| (table, index, word));
    let amplifier: Vec<_> = (0..3)
        .flat_map(|table| everywhere(table, (table as u64 + 1) << 12 | 3))
        .chain((0..512).map(|index| (3, index, (index as u64) << 12 | 0x703)))
        .collect();
    let cases: [(&str, Vec<u8>, i32, &str); 7] = [
        ("self", image(1, &[(0, 0, 3)]), 1, "leads to itself"),
        ("all-self", image(1, &everywhere(0, 3).collect::<Vec<_>>()), 1, "more tables"),
        ("up", image(3, &[(0, 0, 0x1003), (1, 0, 0x2003), (2, 7, 0x1003)]), 1, "leads to itself"),
        ("outside", image(1, &[(0, 511, 0x0000_ffff_ffff_f003)]), 1, "outside memory"),
        ("amplifier", image(4, &amplifier), 1, "more tables"),
        ("reserved", image(2, &[(0, 0, 0x1003), (0, 1, 1), (1, 0, 0xffff_ffff_ffff_fffd)]), 0, ""),
        ("ones", vec![0xff; 4096], 1, "outside memory"),
    ];
    for (name, bytes, status, expected) in cases {
        let path = file(name, &bytes);
        let source = format!("raw:{}@0", path.display());
        for how in [&[][..], &["--json"], &["--stats"], &["--tables"], &["--only", "wx"]] {
            let ended = vellum(&[&["dump", &source], &BY_HAND[..], how].concat());
            assert_eq!(ended.status, status, "{name} {how:?}: {}", ended.said);
            assert!(ended.said.contains(expected), "{name} {how:?}: {}", ended.said);
        }
        let checked = vellum(&[&["check", &source], &BY_HAND[..]].concat());
        assert_eq!(checked.status, 1, "{name}: {}", checked.out);
        let page = path.with_extension("html").display().to_string();
        let reported = vellum(&[&["report", &source, "-o", &page], &BY_HAND[..]].concat());
        assert_eq!(reported.status, 1, "{name}: {}", reported.said);
        assert!(fs::read_to_string(&page).is_ok_and(|text| text.ends_with("</html>")), "{name}: no whole page");
        // A plan takes no registers by hand: what is not found by a search is one line.
        let planned = vellum(&["plan", "--memory", &source, "-o", &page]);
        assert!([0, 2].contains(&planned.status), "{name}: {} {}", planned.status, planned.said);
        fs::remove_file(page).expect("removed");
        fs::remove_file(path).expect("removed");
    }
}

/// A root that the image holds only in part, at its very end, or beyond all addresses.
#[test]
fn roots_at_the_edge_of_memory_are_findings() {
    let path = file("edge", &image(2, &[(1, 0, 0x703)]));
    for ttbr in ["0x1800", "0x2000", "0xfffffffff000", "0x1001"] {
        let source = format!("raw:{}@0", path.display());
        let ended = vellum(&["dump", &source, "--ttbr1", ttbr, "--tcr", BY_HAND[3]]);
        let is_whole = ttbr == "0x1001";
        assert_eq!(ended.status, i32::from(!is_whole), "{ttbr}: {}", ended.said);
    }
    let high = format!("raw:{}@0xfffffffffffff000", path.display());
    let ended = vellum(&["dump", &high, "--ttbr1", "0", "--tcr", BY_HAND[3]]);
    assert!(ended.status == 2 && ended.said.contains("do not fit in 56 bits"), "{}", ended.said);
    fs::remove_file(path).expect("removed");
}

/// Every TCR with one bit other than a good one's: a dump, or one line.
#[test]
fn odd_registers_are_a_dump_or_a_line() {
    let path = file("registers", &image(2, &[(0, 0, 0x1003), (1, 0, 0x703)]));
    let source = format!("raw:{}@0", path.display());
    for bit in 0..64 {
        let tcr = format!("{:#x}", 0x15_b510_3510u64 ^ 1 << bit);
        let ended =
            vellum(&["dump", &source, "--ttbr1", "0", "--ttbr0", "0x8000000000000001", "--tcr", &tcr, "--part", "all"]);
        assert!((0..=2).contains(&ended.status), "bit {bit}: {} {}", ended.status, ended.said);
    }
    fs::remove_file(path).expect("removed");
}

/// Findings below the rank that is named leave the status clean.
#[test]
fn the_rank_that_fails_is_chosen() {
    let page = 0x0060_0000_4000_0703;
    let (pxn, uxn) = (1 << 53, 1 << 54);
    let cases = [
        ("danger", page & !pxn, [1, 1, 1]),
        ("risk", page & !uxn, [0, 1, 1]),
        ("cost", 0, [0, 0, 1]),
        ("clean", page, [0; 3]),
    ];
    for (name, leaf, expected) in cases {
        let path = file(name, &image(4, &[(0, 0, 0x1003), (1, 0, 0x2003), (2, 0, 0x3003), (3, 0, leaf)]));
        let source = format!("raw:{}@0", path.display());
        let status = |more: &[&str]| vellum(&[&["check", &source], &BY_HAND[..], more].concat()).status;
        let statuses = ["danger", "risk", "cost"].map(|rank| status(&["--fail-from", rank]));
        assert_eq!((statuses, status(&[])), (expected, expected[2]), "{name}");
        fs::remove_file(path).expect("removed");
    }
}
