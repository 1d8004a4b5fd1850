//! Logs of casemate's as traces: those of `tests/casemate` against the table of its README, and some of our own.

use std::fs;
use std::path::Path;

use machine::seed::Seed;
use machine::trace::{Judge, Malformed};

use super::{Assumed, is_casemate, read};

fn judged(text: &str, assumed: &Assumed) -> Result<(String, Vec<String>), Malformed> {
    let trace = read(text, assumed)?;
    let mut judge = Judge::new(&trace, false);
    while judge.step()? {}
    let told = judge.findings().iter().map(|it| {
        let line = judge.line_of(it.event).expect("a finding in a line");
        format!("{} at line {line}", it.rule.label())
    });
    let told: Vec<String> = told.collect();
    Ok((if told.is_empty() { "clean".into() } else { told.join(", ") }, trace.notes.clone()))
}

fn verdict(text: &str) -> Result<String, Malformed> {
    judged(text, &Assumed::default()).map(|(verdict, _)| verdict)
}

#[test]
fn the_public_logs_are_judged_as_their_table_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/casemate");
    let table = fs::read_to_string(folder.join("README.md")).expect("a table");
    let rows = table.lines().filter(|line| line.starts_with("| good_") || line.starts_with("| bad_"));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
    let logs = fs::read_dir(&folder).expect("logs").map(|it| it.expect("a file").path());
    let logs = logs.filter(|path| path.extension().is_some_and(|it| it == "log")).count();
    assert_eq!((rows.len(), logs), (10, 10), "a row for each log");
    for row in rows {
        let [_, name, theirs, ours, why, _] = row[..] else { panic!("{row:?}") };
        let text = fs::read_to_string(folder.join(format!("{name}.log"))).expect("a log");
        assert!(is_casemate(&text) && !why.is_empty());
        let (found, notes) = judged(&text, &Assumed::default()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_eq!(found, ours, "{name}");
        let said = notes.iter().find_map(|note| note.strip_prefix("casemate's own verdict there: "));
        assert_eq!(said.unwrap_or("good"), theirs, "{name}");
    }
}

/// Stage 2 of VMID 7: a block of 2 MiB, in the tables from 0x50000000.
const BLOCK: &str = "\
(mem-init (id 0) (tid 0) (address 50000000) (size 3000) (src \"s2.c:1\"))
(mem-write (id 1) (tid 0) (mem-order plain) (address 50000000) (value 50001003) (src \"s2.c:2\"))
(mem-write (id 2) (tid 0) (mem-order release) (address 0x50001000) (value 0x50002003) (src \"s2.c:3\"))
(mem-write (id 3) (tid 0) (mem-order plain) (address 50002000) (value 800007fd) (src \"s2.c:4\"))
(sysreg-write (id 4) (tid 0) (sysreg vttbr_el2) (value 7000050000000) (src \"s2.c:5\"))
";
const AWAY: &str = "(mem-write (id 5) (tid 0) (mem-order plain) (address 50002000) (value 0) (src \"s2.c:6\"))\n";
const DSB: &str = "(barrier (id 6) (tid 0) dsb (kind ish) (src \"s2.c:7\"))\n";
const STAGE2: &str = "(tlbi (id 7) (tid 0) ipas2e1is (value 0) (src \"s2.c:8\"))\n";
const STAGE1: &str = "(tlbi (id 8) (tid 0) vmalle1is (src \"s2.c:9\"))\n";
const OTHER: &str =
    "(mem-write (id 9) (tid 0) (mem-order plain) (address 50002000) (value 802007fd) (src \"s2.c:10\"))\n";

#[track_caller]
fn expect(records: &[&str], expected: &str) {
    assert_eq!(verdict(&(BLOCK.to_owned() + &records.concat())).as_deref(), Ok(expected), "{records:?}");
}

#[test]
fn what_casemate_cannot_see_is_judged_by_the_architecture() {
    expect(&[AWAY, DSB, STAGE2, DSB, STAGE1, DSB, OTHER], "clean");
    expect(&[OTHER], "V2 at line 6");
    expect(&[AWAY, DSB, DSB, OTHER], "V1 at line 9");
    expect(&[AWAY, STAGE2, DSB, STAGE1, DSB, OTHER], "V1 at line 11");
    expect(&[AWAY, DSB, STAGE2, STAGE1, OTHER], "V1 at line 10");
    // A barrier that orders stores alone is enough before a TLBI, and not after.
    let stores = DSB.replace("ish", "ishst");
    expect(&[AWAY, &stores, STAGE2, DSB, STAGE1, DSB, OTHER], "clean");
    expect(&[AWAY, DSB, STAGE2, &stores, STAGE1, &stores, OTHER], "V1 at line 12");
    // A hint of level 3 with the granule of 4 KiB leaves the block of level 2 where it was.
    let hinted = STAGE2.replace("value 0", "value 700000000000");
    expect(&[AWAY, DSB, &hinted, DSB, STAGE1, DSB, OTHER], "V7 at line 8, V1 at line 12");
    // Without the access flag, and without hardware that sets it, nothing is cached: the change is legal.
    let young = BLOCK.replace("800007fd", "800003fd") + &OTHER.replace("802007fd", "802003fd");
    assert_eq!(verdict(&young).as_deref(), Ok("clean"));
}

#[test]
fn what_a_log_does_not_say_can_be_given() {
    let live = BLOCK.to_owned() + OTHER;
    let mut off = Assumed::default();
    off.set_register("hcr_el2=0").expect("a register");
    let (found, notes) = judged(&live, &off).expect("a log");
    assert_eq!(found, "clean", "stage 2 is off");
    assert!(notes[0].contains("vtcr_el2 0x80050090") && !notes[0].contains("hcr_el2 0x"), "{notes:?}");
    // From level 1, the table of level 0 is a table of level 1, and the block one of level 3, which is reserved.
    let mut lower = Assumed::default();
    lower.set_register("VTCR_EL2=0x80050059").expect("a register");
    assert_eq!(judged(&live, &lower).expect("a log").0, "clean");
    let mut unhinted = Assumed::default();
    unhinted.set_features("ttl=0 bbm=1").expect("fields");
    let hinted = STAGE2.replace("value 0", "value 700000000000");
    let text = BLOCK.to_owned() + &[AWAY, DSB, &hinted, DSB, STAGE1, DSB, OTHER].concat();
    assert_eq!(judged(&text, &unhinted).expect("a log").0, "clean", "hints are not read");
    for (text, what) in [("vtcr_el2", "=VALUE"), ("vttbr_el2=0", "expected tcr_el2"), ("hcr_el2=on", "a number")] {
        let error = Assumed::default().set_register(text).expect_err("accepted");
        assert!(error.contains(what), "{error}");
    }
    assert!(Assumed::default().set_features("bbm=4").expect_err("accepted").contains("expected 0 to 3"));
    assert!(Assumed::default().set_features("bbm").expect_err("accepted").contains("expected FIELD=VALUE"));
    assert!(Assumed::default().set_features("sve=1").expect_err("accepted").contains("expected bbm,"));
}

/// What is assumed of a log is not called needless, nor does it make what stands there needless.
#[test]
fn what_is_assumed_is_no_finding() {
    let isb = "(barrier (id 0) (tid 0) isb)\n";
    let empty = "(sysreg-write (id 0) (tid 0) (sysreg vttbr_el2) (value 50000000))\n";
    let needless = "(barrier (id 0) (tid 0) dsb (kind ish))\n";
    for (text, lints) in [(BLOCK.to_owned() + isb, 0), (empty.to_owned() + isb, 0), (needless.to_owned() + empty, 1)] {
        let trace = read(&text, &Assumed::default()).expect("a log");
        let mut judge = Judge::new(&trace, true);
        while judge.step().expect("it makes sense") {}
        assert_eq!(judge.findings().len(), lints, "{text}: {:?}", judge.findings());
    }
}

/// A log that writes its registers means them; T0SZ alone gets the start level that casemate reads out of it.
#[test]
fn logged_registers_are_meant() {
    let register = |name: &str, value: &str| format!("(sysreg-write (id 0) (tid 0) (sysreg {name}) (value {value}))\n");
    let isb = "(barrier (id 0) (tid 0) isb)\n";
    let setup = register("vtcr_el2", "10") + &register("hcr_el2", "0") + BLOCK + DSB + isb;
    assert_eq!(verdict(&(setup.clone() + OTHER)).as_deref(), Ok("clean"), "HCR_EL2.VM was never set");
    let on = setup + &register("hcr_el2", "1") + isb;
    assert_eq!(verdict(&(on.clone() + OTHER)).as_deref(), Ok("V2 at line 12"));
    let trace = on + &register("hcr_el2", "0");
    let notes = judged(&trace, &Assumed::default()).expect("a log").1;
    assert!(notes[0].starts_with("assumed, because the log never writes it: tcr_el2 "), "{notes:?}");
    assert!(!notes[0].contains("vtcr") && !notes[0].contains("hcr"), "{notes:?}");
}

#[test]
fn memory_is_set_read_and_freed() {
    let set = "(mem-set (id 6) (tid 0) (address 50002000) (size 1000) (value 0))\n";
    let init = "(mem-init (id 6) (tid 0) (address 50002000) (size 1000))\n";
    let free = "(mem-free (id 6) (tid 0) (address 50002000) (size 1000))\n";
    let release = "(hint (id 6) (tid 0) (kind release_table) (location 50002000) (value 0))\n";
    let read = |value: &str| format!("(mem-read (id 7) (tid 1) (address 50002000) (value {value}))\n");
    for zero in [set, init] {
        expect(&[zero, DSB, STAGE2, DSB, STAGE1, DSB, OTHER], "clean");
        expect(&[zero, &read("0"), DSB, OTHER], "V1 at line 9");
    }
    expect(&[free], "V3 at line 6");
    expect(&[release], "V3 at line 6");
    let unlink = AWAY.replace("50002000", "50001000");
    expect(&[&unlink, DSB, STAGE2, DSB, STAGE1, DSB, free, init], "clean");
    let last_level = STAGE2.replace("ipas2e1is", "ipas2le1is");
    expect(&[&unlink, DSB, &last_level, DSB, STAGE1, DSB, free], "V3 at line 12");
    let all = STAGE1.replace("vmalle1is", "vmalls12e1is");
    expect(&[&unlink, DSB, &all, DSB, free, init], "clean");
    let error = verdict(&(BLOCK.to_owned() + &read("5"))).expect_err("accepted");
    assert!(error.line == 6 && error.what.contains("0x800007fd, which is there since line 4"), "{error:?}");
    let error = verdict("(mem-init 0 0 1000 1000)\n(mem-read 1 0 1008 5)\n").expect_err("accepted");
    assert!(error.line == 2 && error.what.contains("expected 0x0"), "{error:?}");
    let filled = "(mem-set 0 0 1000 10 ab)\n(mem-read 1 0 1008 abababababababab)\n(mem-read 2 0 1010 7)\n";
    assert_eq!(verdict(filled).as_deref(), Ok("clean"));
}

/// Bare fields, records over many lines, threads at every level, and the records that are only counted.
#[test]
fn every_form_is_read() {
    let text = "(mem-write 1 1 \"a.c:1\" release 0x40 93)\n(lock 2 1 \"a.c:2\" 42)\n(trylock 2 1 42)(unlock 3 1 42)";
    assert!(verdict(text).expect_err("accepted").what.contains("a second record"));
    let text = "\n(mem-write\n  (id 1)\n  (tid 1)\n  (mem-order plain) (address 0x40)\n  (value 0x93)\n  (src \"a.c:1\"))\n\
                (lock 2 1 42)\n(trylock 2 1 42)\n(unlock 3 1 42 \"a.c:9\")\n(barrier 4 1 dsb nsh)\n(barrier 5 0 isb)\n\
                (tlbi 6 1 alle2)\n(tlbi 7 1 vale2is 40)\n(tlbi 8 1 (value 40))\n";
    let error = verdict(text).expect_err("accepted");
    assert!(error.line == 15 && error.what.contains("expected (name of a TLBI"), "{error:?}");
    let text = text.lines().take(14).collect::<Vec<_>>().join("\n")
        + "\n(enter-context 9 1 (el 1))\n(exit-context 10 1)\n(hint 11 1 set_owner_root 1000 2000)\n! stopped";
    let trace = read(&text, &Assumed::default()).expect("a log");
    assert_eq!(trace.cpus.len(), 2);
    assert_eq!(trace.comment(2), Some("a.c:1"));
    assert!(trace.quote(2).starts_with("mem-write\n  (id 1)") && trace.quote(2).ends_with("(value 0x93)"));
    let (found, notes) = judged(&text, &Assumed::default()).expect("a log");
    assert_eq!(found, "clean");
    assert_eq!(
        notes[1],
        "not judged: 3 lock and 1 ownership-hint records; their rules are casemate's, not the architecture's"
    );
    assert_eq!(notes[2], "casemate's own verdict there: stopped");
}

#[track_caller]
fn malformed(record: &str, what: &str) {
    match verdict(&(BLOCK.to_owned() + record)) {
        Err(found) => assert!(found.line == 6 && found.what.contains(what), "{record}: {found:?}"),
        Ok(found) => panic!("{record}: accepted, {found}"),
    }
}

#[test]
fn what_makes_no_sense_is_told_with_its_line() {
    malformed("mem-write 1 1", "expected a record");
    malformed("((id 1))", "expected the name of a record");
    malformed("(mem-write (id 1)", "the end of the log inside a record");
    malformed("(mem-write (id 1) \"a", "a string without its end");
    malformed("(mem-write (id (1)))", "no (NAME VALUE)");
    malformed("(mem-write (id x) (tid 0))", "expected a decimal number");
    malformed("(mem-write (tid 0) (id 1))", "`(tid 0)` in `mem-write`, expected (id …)");
    malformed("(barrier (id 1) (tid 64) isb)", "expected one below 64");
    malformed("(mem-swap (id 1) (tid 0))", "`mem-swap`, expected mem-write");
    malformed("(mem-write (id 1) (tid 0) (mem-order weak) (address 0) (value 0))", "expected plain or release");
    malformed("(mem-write (id 1) (tid 0) (mem-order plain) (address 4) (value 0))", "a multiple of 8");
    malformed("(mem-write (id 1) (tid 0) (mem-order plain) (address 8) (value 0xz))", "a hexadecimal number");
    malformed(
        "(mem-write (id 1) (tid 0) (mem-order plain) (address 8))",
        "nothing more in `mem-write`, expected (value",
    );
    malformed("(barrier (id 1) (tid 0) isb (kind ish))", "expected nothing more");
    malformed("(barrier (id 1) (tid 0) dsb (kind inner))", "nsh, ish, osh or sy");
    malformed("(barrier (id 1) (tid 0) csdb)", "expected");
    malformed("(tlbi (id 1) (tid 0) vae2is)", "without an operand");
    malformed("(tlbi (id 1) (tid 0) vae2xs (value 0))", "expected the name of a TLBI");
    malformed("(sysreg-write (id 1) (tid 0) (sysreg ttbr2_el1) (value 0))", "expected ttbr0_el1");
    malformed("(hint (id 1) (tid 0) (kind own) (location 0) (value 0))", "expected set_root_lock");
    malformed("(mem-init (id 1) (tid 0) (address 8) (size 0))", "a multiple of 8 that ends below");
    malformed("(mem-init (id 1) (tid 0) (address 8) (size ffffffffffffff8))", "that ends below 2^52");
    malformed("(mem-set (id 1) (tid 0) (address 8) (size 8) (value 100))", "expected a byte");
    malformed("(mem-set (id 1) (tid 0) (address 8) (size 1000000) (value 1))", "0x100000 at most");
    malformed("(mem-free (id 1) (tid 0) (address 8) (size 1000000))", "0x100000 at most");
    malformed("(enter-context (id 1) (tid 0) (el 2))", "expected 0 or 1");
    assert_eq!(verdict("").expect_err("accepted").line, 1);
    assert!(verdict("! stopped at once").expect_err("accepted").what.contains("a log without a record"));
    assert!(!is_casemate("vellum trace 1\n") && !is_casemate("") && is_casemate("\n (mem-init"));
}

/// Damaged logs: a verdict or a line that makes no sense, never a panic.
#[test]
fn damaged_logs_are_read_too() {
    let whole = BLOCK.to_owned() + &[AWAY, DSB, STAGE2, DSB, STAGE1, DSB, OTHER, "! stopped\n"].concat();
    for number in 0..400 {
        let mut seed = Seed::new(number);
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..=seed.below(6) {
            let at = 1 + seed.below(bytes.len() as u64 - 1) as usize;
            match seed.below(3) {
                0 => bytes[at] = *seed.pick(b"()\"! \n0f1x\x80"),
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(8)),
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let done = std::panic::catch_unwind(|| verdict(&text).map(drop));
        assert!(done.is_ok(), "seed {number}:\n{text}");
    }
}
