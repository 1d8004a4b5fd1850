//! The example traces of `docs/trace`, each with the verdict that its own comment states; and what is malformed.

use std::fs;
use std::path::Path;

use machine::seed::Seed;
use machine::trace::{Judge, Malformed, Trace};

/// `V1 at line 3, V2 at line 5`, or `clean`.
fn verdict(text: &str) -> Result<String, Malformed> {
    let trace = Trace::read(text)?;
    let mut judge = Judge::new(&trace, false);
    while judge.step()? {}
    let told = judge.findings().iter().map(|it| {
        let line = judge.line_of(it.event).expect("a finding in a line");
        format!("{} at line {line}", it.rule.label())
    });
    let told: Vec<String> = told.collect();
    Ok(if told.is_empty() { "clean".into() } else { told.join(", ") })
}

#[test]
fn every_example_is_judged_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/trace");
    let mut files: Vec<_> = fs::read_dir(folder).expect("the examples").map(|it| it.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "trace"));
    files.sort();
    assert!(files.len() >= 15, "{files:?}");
    let mut wrong = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a text");
        let stated = text.lines().find_map(|line| line.strip_prefix("# verdict: ")).expect("a verdict");
        match verdict(&text) {
            Ok(found) if found == stated => {}
            other => wrong.push(format!("{}: {stated}, found {other:?}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const START: &str = "vellum trace 1\ncpu 0 bbm=2 hafdbs=2\ncpu 1\n";

#[track_caller]
fn malformed(rest: &str, line: usize, what: &str) {
    let text = format!("{START}{rest}");
    match verdict(&text) {
        Err(found) => assert!(found.line == line && found.what.contains(what), "{rest}: {found:?}"),
        Ok(found) => panic!("{rest}: accepted, {found}"),
    }
}

#[test]
fn what_makes_no_sense_is_told_with_its_line() {
    let error = |text: &str| verdict(text).expect_err("accepted");
    assert_eq!((error("").line, error("\n# nothing\n").line), (1, 2));
    assert!(error("vellum trace 2").what.contains("expected `vellum trace 1`"));
    assert!(error("vellum trace 1\n0 isb").what.contains("before any `cpu` line"));
    assert!(error("vellum trace 1\n\n").what.contains("no line `cpu 0 …`"));
    malformed("cpu 3", 4, "CPU 3, expected CPU 2");
    malformed("0 isb\ncpu 2", 5, "after the first event");
    malformed("0 isb\nmemory 0x0 0x1", 5, "after the first event");
    malformed("0 holds 0x0", 4, "expected `holds ADDRESS VALUE`");
    malformed("memory 0x0\n", 4, "without a value");
    malformed("memory 0x0 1\nmemory 0x0 2", 5, "told twice");
    malformed("0 data", 4, "expected `data ADDRESS`");
    malformed("2 isb", 4, "expected one of the 2");
    malformed("flush", 4, "expected `CPU VERB …`");
    malformed("zero isb", 4, "expected the number of a CPU");
    malformed("0 flush 0x1", 4, "expected load, store");
    malformed("0 store 0x1001 0x0", 4, "a multiple of 8");
    malformed("0 store 0x10000000000000 0x0", 4, "below 2^52");
    malformed("0 store 0x1000", 4, "expected `store ADDRESS VALUE`");
    malformed("0 store 0x1000 0xg", 4, "in hexadecimal");
    malformed("0 dsb inner", 4, "nsh, ish, osh or sy");
    malformed("0 isb ish", 4, "expected `isb`");
    malformed("0 tlbi vae1xs 0x0", 4, "expected the name of a TLBI");
    malformed("0 tlbi 0xd503201f 0x0", 4, "expected the 32 bits of a TLBI");
    malformed("0 tlbi vae1is", 4, "without an operand");
    malformed("0 msr ttbr2_el1 0x0", 4, "expected ttbr0_el1, ttbr1_el1,");
    malformed("0 enter el3", 4, "expected el0, el1 or el2");
    malformed("0 free frame 0x1000 0", 4, "expected 1 to");
    malformed("0 free table 0x0 0x10000000000", 4, "expected 1 to 0x100000");
    malformed("0 free asid 0x10000", 4, "of 16 bits");
    malformed("0 revoked 0x2000 0x1000 ---/---", 4, "not above LAST");
    malformed("0 revoked 0x1000 0x2000 xwr/---", 4, "expected permissions");
    malformed("cpu 2 bbm=4", 4, "expected 0 to 3");
    malformed("cpu 2 sve=1", 4, "expected bbm,");
    malformed("cpu 2 bbm=1 ets=2 BBM=2", 4, "`BBM` is told twice");
    malformed("memory 0xffffffffffff0 1 2 3", 4, "`3` would lie at 0x10000000000000, expected");
    for number in ["+1", "0x+1", "-1", "0x", "1_000", "18446744073709551616"] {
        malformed(&format!("0 store 0x1000 {number}"), 4, "expected a number of 64 bits");
    }
    malformed("+0 isb", 4, "expected the number of a CPU");
    let many: String = (2..65).map(|cpu| format!("cpu {cpu}\n")).collect();
    malformed(&many, 66, "CPU 64, expected 64 CPUs at most");
}

/// What a message quotes is short, and nothing of it moves a terminal's cursor.
#[test]
fn what_is_quoted_is_harmless() {
    let quoted = |rest: &str| verdict(&format!("{START}{rest}")).expect_err("accepted").what;
    assert!(quoted("0 isb\0").contains(r"`isb\u{0}`, expected"), "{}", quoted("0 isb\0"));
    assert!(quoted("0 \u{1b}[2Jstore 0 0").contains(r"`\u{1b}[2jstore`, expected load"));
    for long in ["9".repeat(1 << 20), "x ".repeat(1 << 20)] {
        for line in [format!("0 store 0x1000 {long}"), format!("0 {long}"), long.clone(), format!("cpu 2 {long}")] {
            assert!(quoted(&line).len() < 300, "{:.400}", quoted(&line));
        }
    }
    let text = include_str!("../../docs/trace/live-change.trace")
        .replace("0x60000090000703", "0x60000090000703 # \u{1b}[2J\ta\u{7}");
    let trace = Trace::read(&text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    let story = judge.story(&judge.findings()[0]).to_string();
    assert!(story.contains(r"[\u{1b}[2J a\u{7}  # set_pte]"), "{story:?}");
}

/// Whatever wrote the file: blanks, commas, ends of lines and case are free, and a byte order mark is none of the text.
#[test]
fn form_is_free() {
    let odd = "\u{feff}# a comment\r\n\r\nVellum  trace,1\r\nCPU 0x0 BBM=0x2,Ets=2\r\n\tcpu 1\r\nMEMORY 0X1000 0x5, 0X6 # five\r\n\
               0X1 DSB ISH\r\n1 Free FRAME 0x2000 4096\r\n0 needs NOTHING\r\n0 free Asid 3\r\n0 free VMID 3\r\n\
               0 revoked 0 1 RW-/--- ASID 3\r\n0 tlbi 0Xd508831f";
    let read = Trace::read(odd).expect("a trace");
    assert_eq!((read.cpus.len(), read.cpus[0].bbm, read.memory.get(0x1008), read.lines.len()), (2, 2, Some(6), 7));
    assert_eq!((read.lines[0].number, read.lines[0].cpu, read.comment(6)), (7, 1, Some("five")));
}

#[test]
fn what_cannot_have_happened_is_told_with_its_line() {
    malformed("0 store 0x1000 0x5\n0 load 0x1000 0x7", 5, "expected 0x5, which is there since line 4");
    malformed("0 exchange 0x1000 0x5 0x6 0x5\n1 exchange 0x1000 0x5 0x7 0x5", 5, "since line 4");
    malformed("memory 0x1000 0x5\n0 load 0x1000 0x7", 5, "since before the trace");
    malformed("0 msr vtcr_el2 0xc0", 4, "root tables side by side");
    let judged = |rest: &str| verdict(&format!("{START}{rest}"));
    // What a load finds first was there; an old value may be logged late; hardware sets its bits.
    assert_eq!(judged("0 load 0x1000 0x7\n0 store 0x1000 0x9\n1 load 0x1000 0x7"), Ok("clean".into()));
    assert_eq!(judged("0 load 0x1000 0x303\n1 load 0x1000 0x703"), Ok("clean".into()));
    assert_eq!(judged("0 store 0x1000 0x8000000000783\n1 load 0x1000 0x8000000000703"), Ok("clean".into()));
    malformed("0 load 0x1000 0x703\n1 load 0x1000 0x303", 5, "expected 0x703");
    malformed("0 load 0x1000 0x783\n1 load 0x1000 0x703", 5, "expected 0x783");
}

/// Every name and every form is read: a TLBI by its name and by its 32 bits is the same.
#[test]
fn every_verb_is_read() {
    let verbs = "0 load 0x1000, 0x0\n0 store 0x1000 1\n0 store-release 0x1000 2\n0 exchange 0x1000 0x2 0x3 0x2\n\
                 0 dsb ish\n0 DSB OSHLD\n0 dsb st\n0 dsb ishnxs\n0 dmb ishst\n0 isb\n0 isb sy\n0 tlbi vmalle1is\n\
                 0 tlbi vae1is, 0x1\n0 tlbi 0xd5088320 0x1\n0 tlbi rvae1isnxs 0x400000000001\n0 msr TTBR0_EL1 0x0\n\
                 0 msr Pir_EL1 0x0\n0 enter el0\n0 enter el1\n0 access fetch 0x0\n0 needs 0x0 0xfff\n0 needs nothing\n\
                 0 free frame 0x2000 0x1000\n0 free table 0x1000 0x1000\n0 free asid 0x3\n0 free vmid 4\n\
                 0 revoked 0x0 0xfff rw-/---\n0 revoked 0x0 0xfff rwx/rwx asid 3\n0 revoked 0 1 ---/--- vmid 1\n\
                 0 conflict\n";
    let trace = format!("{START}{verbs}");
    let read = Trace::read(&trace).expect("a trace");
    assert_eq!(read.lines.len(), verbs.lines().count());
    assert_eq!(read.lines[12].act, read.lines[13].act, "name and instruction word");
    // The conflict abort is left open, and range TLBIs and nXS are not there: those are findings, not mistakes.
    assert_eq!(verdict(&trace), Ok("V7 at line 18".into()));
}

#[test]
fn a_story_names_lines() {
    let text = include_str!("../../docs/trace/unmap-no-tlbi.trace");
    let trace = Trace::read(text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    let story = judge.story(&judge.findings()[0]).to_string();
    for part in [
        "V3: given away while an entry still refers to it. At line 31 (`0 free frame 0x80000000 0x1000`) [__free_page]",
        "May still be cached on CPUs [0, 1]: EL1&0 level-3 leaf 0x0..=0xfff -> 0x80000000",
        "It went out of reach at line 29 (`0 dsb ish`) on CPU 0, when the store to 0x40003000 was complete",
        "Missing: a TLBI that reaches the entry",
        "Hardware could: read or write the memory's next owner",
        "What it came from was stored over at line 28 (`0 store 0x40003000 0x0`) [pte_clear, mm/memory.c:1432]",
    ] {
        assert!(story.contains(part), "{part}\nis not in\n{story}");
    }
}

/// What keeps a broadcast TLBI from another CPU is told apart from a TLBI that is local.
#[test]
fn a_cpu_without_range_tlbis_is_named() {
    let trace = include_str!("../../docs/trace/range-not-everywhere.trace");
    let local = trace.replace("rvaale1is 0x400000000000", "vaale1 0");
    for (text, why) in [(trace, "CPU without its feature"), (&local, "it is local to its CPU")] {
        let trace = Trace::read(text).expect("a trace");
        let mut judge = Judge::new(&trace, false);
        while judge.step().expect("it makes sense") {}
        let story = judge.story(&judge.findings()[0]).to_string();
        assert!(story.contains(why) && story.contains("on CPUs [1]"), "{story}");
    }
}

/// Of many stores, the one that is not sure to be visible is named.
#[test]
fn what_is_not_visible_is_named() {
    let text = "vellum trace 1\ncpu 0 ets=2\n0 store 0x40001000 0\n0 store 0x40000000 0x40001003\n0 msr tcr_el1 0x1500900010\n\
                0 msr ttbr0_el1 0x40000000\n0 isb\n0 msr sctlr_el1 1\n0 isb\n";
    let trace = Trace::read(text).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    let story = judge.story(&judge.findings()[0]).to_string();
    assert!(story.starts_with("V9") && story.contains("a DSB by the CPU that stored to 0x4000"), "{story}");
}

/// The story of an access names the line of the store that the access may miss.
#[test]
fn what_an_access_may_miss_is_named() {
    let trace = Trace::read(include_str!("../../docs/trace/used-not-visible.trace")).expect("a trace");
    let mut judge = Judge::new(&trace, false);
    while judge.step().expect("it makes sense") {}
    let story = judge.story(&judge.findings()[0]).to_string();
    let line = "  What a walk may miss was stored at line 32 (`0 store 0x40003020 0x60000080004703`) [set_pte, without a barrier].\n";
    assert!(story.contains(line), "{story}");
}

/// A TLBI that is wrong in itself is told in words.
#[test]
fn a_wrong_encoding_is_told_in_words() {
    let told = |line: &str| {
        let text = format!("vellum trace 1\ncpu 0 ttl=1 tlb=2\n{line}\n");
        let trace = Trace::read(&text).expect("a trace");
        let mut judge = Judge::new(&trace, false);
        while judge.step().expect("it makes sense") {}
        judge.story(&judge.findings()[0]).to_string()
    };
    let all = [
        ("0 tlbi 0xd50883df 0", ["executed no TLBI of the architecture", "there is no such TLBI", "UNDEFINED"]),
        ("0 tlbi vae1isnxs 0", ["executed TLBI VAE1ISnXS", "this CPU lacks the feature", "take an exception"]),
        ("0 tlbi rvae1is 0", ["executed TLBI RVAE1IS", "TG is 0, which is reserved", "invalidate nothing"]),
        (
            "0 tlbi rvae1is 0x404000000001",
            ["RVAE1IS", "base is not aligned to a block of the level", "any other range"],
        ),
        ("0 tlbi vae1is 0x300000000000", ["VAE1IS", "the level hint is reserved", "no hint"]),
        ("0 tlbi rvae1is 0x7f9fffffffff", ["RVAE1IS", "runs past the end of its half", "leave what lies beyond"]),
    ];
    for (line, parts) in all {
        let story = told(line);
        assert!(parts.iter().all(|part| story.contains(part)), "{line}: {parts:?} is not in\n{story}");
    }
}

/// Lines that make sense one by one and none together: findings or a mistake in a line, never a panic, never endless.
#[test]
fn nonsense_is_judged_too() {
    for seed in 0..400 {
        let text = nonsense(&mut Seed::new(seed));
        let done = std::panic::catch_unwind(|| verdict(&text).map(drop));
        assert!(done.is_ok(), "seed {seed}:\n{text}");
    }
}

fn nonsense(seed: &mut Seed) -> String {
    const PAGES: u64 = 0x4000_0000;
    let mut text = String::from("vellum trace 1\n");
    for cpu in 0..2 {
        let (bbm, hafdbs, ets) = (seed.below(4), seed.below(4), seed.below(4));
        let (lpa, lpa2, tlb) = (seed.below(2), seed.below(2), seed.below(3));
        text += &format!("cpu {cpu} bbm={bbm} hafdbs={hafdbs} ets={ets} lpa={lpa} lpa2={lpa2} tlb={tlb} parange=6\n");
    }
    for _ in 0..80 {
        let cpu = seed.below(2);
        let word = PAGES + seed.below(4) * 0x1000 + seed.below(3) * 8;
        let bits = seed.bits();
        // A table in one of the pages, a leaf, or anything.
        let value = match seed.below(4) {
            0 => (PAGES + seed.below(4) * 0x1000) | 3,
            1 => (seed.below(1 << 36) << 12) | (bits & 0xfff) | 1,
            2 => 0,
            _ => bits,
        };
        let registers = ["ttbr0_el1", "ttbr1_el1", "tcr_el1", "mair_el1", "sctlr_el1", "ttbr0_el2", "tcr_el2"];
        let more = ["sctlr_el2", "vttbr_el2", "vtcr_el2", "hcr_el2", "hcrx_el2", "ttbr1_el2", "mair_el2"];
        let register = seed.pick(&[registers, more].concat()).to_string();
        let setting = if register.contains("ttbr") { PAGES | (seed.below(4) << 48) } else { bits >> seed.below(64) };
        let tlbi =
            seed.pick(&["vae1is", "vmalle1", "aside1is", "ipas2e1is", "rvae1is", "alle1", "vale2is"]).to_string();
        let line = match seed.below(12) {
            0..=3 => format!("store {word:#x} {value:#x}"),
            4 => format!("load {word:#x} {value:#x}"),
            5 => format!("exchange {word:#x} {value:#x} {bits:#x} {value:#x}"),
            6 => format!("msr {register} {setting:#x}"),
            7 => {
                seed.pick(&["isb", "dsb ish", "dsb nshst", "dmb ish", "enter el0", "enter el2", "conflict"]).to_string()
            }
            8 => format!("tlbi {tlbi} {:#x}", bits >> seed.below(64)),
            9 => format!("free frame {:#x} 0x1000", bits & 0xf_ffff_ffff_f000 & !(1 << 51)),
            10 => format!("free table {:#x} 0x1000", word & !0xfff),
            _ => format!("access read {bits:#x}"),
        };
        // What a load or exchange finds is seldom what is there: most of them would end the trace.
        let is_kept = !line.contains("load") && !line.contains("exchange") || seed.one_in(40);
        text += &if is_kept { format!("{cpu} {line}\n") } else { String::new() };
    }
    text
}

/// A table that leads to itself, as some kernels have it.
#[test]
fn a_recursive_table_is_walked() {
    let text = "vellum trace 1\ncpu 0\nmemory 0x40000000 0x40001003\nmemory 0x40000ff8 0x40000003\n\
                0 msr tcr_el1 0x1500900010\n0 msr ttbr0_el1 0x40000000\n0 isb\n0 msr sctlr_el1 1\n0 isb\n\
                0 store 0x40001000 0x40002003\n0 dsb ish\n0 isb\n0 access read 0xffffffffff08\n";
    assert_eq!(verdict(text), Ok("clean".into()));
}

/// What a table holds that nobody logged is told before the table is linked, and judged like what was stored.
#[test]
fn what_a_table_held_before_its_link_is_told_and_not_changed_later() {
    let linked = "vellum trace 1\ncpu 0\nmemory 0x40000000 0x40001003\n\
                  0 msr tcr_el1 0x1500900010\n0 msr ttbr0_el1 0x40000000\n0 isb\n0 msr sctlr_el1 1\n0 isb\n\
                  0 holds 0x40002000 0x40003003\n0 holds 0x40003000 0x60000080000703\n0 store 0x40001000 0x40002003\n0 dsb ish\n";
    assert_eq!(verdict(linked), Ok("clean".into()));
    assert_eq!(verdict(&format!("{linked}0 store 0x40003000 0x60000090000703\n")), Ok("V2 at line 13".into()));
    let late = verdict(&format!("{linked}0 holds 0x40003000 0x60000090000703\n")).expect_err("walks read it");
    assert!(late.line == 13 && late.what.contains("walks read the word at 0x40003000"), "{late:?}");
}

/// The root at 0x1000 leads to itself by its first `slots` slots, and is walked with 48 bits of 4 KiB pages.
fn recursive(slots: u64) -> String {
    let links: String = (0..slots).map(|slot| format!("0 store {:#x} 0x1003\n", 0x1000 + slot * 8)).collect();
    let registers = "0 msr tcr_el1 0x10\n0 msr ttbr0_el1 0x1000\n0 msr sctlr_el1 0x1\n0 isb\n";
    format!("{START}{links}0 dsb ish\n{registers}0 store 0x1ff8 0x80000000000703\n0 dsb ish\n")
}

#[test]
fn tables_that_lead_to_themselves_are_judged_or_refused_in_time() {
    assert_eq!(verdict(&recursive(1)), Ok("clean".into()), "a recursive mapping");
    assert_eq!(verdict(&recursive(3)), Ok("clean".into()));
    let refused = verdict(&recursive(511)).expect_err("a walk without end");
    assert!(refused.what.contains("0x1000 is reached by too many ways"), "{refused:?}");
    assert_eq!(refused.line, 3 + 511 + 1 + 3, "where the MMU is switched on");
}

#[test]
fn tables_that_come_to_lead_to_themselves_are_refused_at_that_line() {
    let links: String = (1..511).map(|slot| format!("0 store {:#x} 0x1003\n", 0x1000 + slot * 8)).collect();
    let text = format!("{}{links}", recursive(1));
    let refused = verdict(&text).expect_err("a walk without end");
    assert!(refused.line > recursive(1).lines().count() + 8, "{refused:?}");
}

/// Stage 2's block goes, and only stage 2 is made to forget: what both stages made together meets the next block.
#[test]
fn a_new_block_meets_what_both_stages_made_of_the_old() {
    let text = include_str!("../../docs/trace/stage2-both.trace");
    let (before, _) = text.split_once("0 tlbi vmalle1is").expect("the TLBI of stage 1");
    let line = before.lines().count() + 1;
    for value in ["0x802007fd", "0x900007fd", "0x800007c5"] {
        let found = verdict(&format!("{before}0 store 0x50002000 {value}\n0 dsb ish\n"));
        assert_eq!(found, Ok(format!("V12 at line {line}")), "{value}");
    }
    assert_eq!(verdict(&format!("{before}0 store 0x50002000 0x800007fd\n")), Ok("clean".into()), "the same block");
}

/// Frames that are linked still are told of where that is asked for, and not otherwise.
#[test]
fn a_strict_judge_finds_linked_frames() {
    let told = |name: &str, is_strict: bool| {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/trace").join(name));
        let text = text.expect("a trace").replace("0 store 0x40002000 0x0", "").replace("0 store 0x40003000 0x0", "");
        let trace = Trace::read(&text).expect("a trace");
        let mut judge = Judge::new(&trace, false);
        if is_strict {
            judge.be_strict();
        }
        while judge.step().expect("it makes sense") {}
        judge.findings().iter().map(|it| judge.story(it).to_string()).collect::<Vec<String>>()
    };
    for name in ["free-below-table-repaired.trace", "unmap-no-tlbi.trace"] {
        assert_eq!(told(name, false), [""; 0], "{name}");
        let stories = told(name, true);
        assert!(
            stories.len() == 1 && stories[0].contains("Missing: an invalid descriptor in between"),
            "{name}: {stories:?}"
        );
    }
}
