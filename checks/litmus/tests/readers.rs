//! Every published file is read whole, or refused with its line.

use std::fs;
use std::path::{Path, PathBuf};

use litmus::{herd, isla};
use seed::Seed;
use seed::feed::{damaged, feed};

fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(folder);
    let entries = fs::read_dir(&folder).expect("a folder of tests");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let wanted = paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == extension));
    wanted.map(|path| (path.display().to_string(), fs::read_to_string(&path).expect("text"))).collect()
}

#[test]
fn every_test_with_page_table_setup_is_read() {
    let files = [files("system-vmsa", "toml"), files("system-models", "toml")].concat();
    assert_eq!(files.len(), 137);
    for (file, text) in files {
        let test = isla::parse(&file, &text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!test.name.is_empty() && !test.code.is_empty(), "{file}");
    }
}

#[test]
fn tests_in_machine_code_are_read() {
    let files = files("archsem", "toml");
    assert_eq!(files.len(), 6);
    for (file, text) in files {
        let test = isla::parse(&file, &text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!test.code.is_empty(), "{file}");
        if let Some(bad) = ["0xd5033b9f", "0xf8606820", "\"0:R5\""].iter().find(|it| text.contains(**it)) {
            let error = isla::parse(&file, &text.replace(bad, "0")).expect_err(bad);
            assert!(!error.what.is_empty(), "{error}");
        }
    }
}

#[test]
fn every_test_of_herd_is_read() {
    let all = ["herd-vmsa", "herd-bbm", "herd-small"].map(|folder| files(folder, "litmus")).concat();
    assert_eq!(all.len(), 366);
    for (file, text) in all {
        let test = herd::parse(&file, &text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!test.name.is_empty() && !test.code.is_empty(), "{file}");
    }
}

const GOOD: &str = r#"
arch = "AArch64"
name = "small"
symbolic = ["x"]
page_table_setup = """
    physical pa1;
    x |-> pa1;
    *pa1 = 7;
"""
[thread.0]
code = """
    LDR X0,[X1]
"""
[thread.0.reset]
R1 = "x"
[final]
assertion = "0:X0 = 7"
"#;

/// What each mistake is answered with: the line, and a word of the message.
#[test]
fn mistakes_are_refused_with_their_line() {
    assert!(isla::parse("good.toml", GOOD).is_ok());
    for (good, bad, line, word) in [
        ("AArch64", "x86", 2, "AArch64"),
        ("x |-> pa1", "x |- pa1", 7, "|->"),
        ("x |-> pa1;", "x |-> pa1", 8, "expected `;`"),
        ("physical pa1;", "option wide = true;", 6, "wide"),
        ("pa1;\n    *", "pa1 at level 7;\n    *", 7, "level"),
        ("LDR X0", "LDRR X0", 12, "LDRR"),
        ("R1 = \"x\"", "R1 = \"pte3(x, nowhere)\"", 15, "nowhere"),
        ("R1 = \"x\"", "R99 = \"x\"", 15, "R99"),
        ("0:X0 = 7", "0:X0 ! 7", 17, "="),
        ("0:X0 = 7", "0:X0 = 7 &", 17, "the condition ends early"),
        ("0:X0 = 7", "3:X0 = 7", 17, "thread 3"),
        ("name = \"small\"", "name = small", 3, ""),
        ("[final]", "[finally]", 0, "final.assertion"),
        ("[final]", "[final]\nkind = \"never\"", 17, "final.kind"),
    ] {
        let text = GOOD.replace(good, bad);
        assert_ne!(text, GOOD, "{good} is not there");
        let error = isla::parse("bad.toml", &text).expect_err(bad);
        assert_eq!((error.file.as_str(), error.line), ("bad.toml", line), "{bad}: {error}");
        assert!(error.what.contains(word), "{bad}: {error}");
    }
}

/// What herd takes, too: registers in lower case, numbers below zero, variants that mean nothing here.
#[test]
fn herds_freedoms_are_taken() {
    for (good, other) in [
        ("0:X0=x", "0:x0=x"),
        ("(0:X1=1", "(0:w1=1"),
        ("0:X0=x;", "0:X0=x; 0:X9=-1; 0:X8=-0x10;"),
        ("0:X1=1", "0:X9=-1 /\\ 0:X1=1"),
        ("TTHM=P0:HA", "TTHM=P0:HA\nVariant=vmsa, fatal,ETS2"),
        (" int x=1;", " int x=-1;"),
        ("0:X1=1", "[x]=-1 /\\ 0:X1=1"),
    ] {
        let text = GOOD_HERD.replace(good, other);
        assert_ne!(text, GOOD_HERD, "{good} is not there");
        herd::parse("good.litmus", &text).unwrap_or_else(|error| panic!("{other}: {error}"));
    }
}

const GOOD_HERD: &str = "AArch64 small
TTHM=P0:HA
(* a (* nested *) comment *)
{
 int x=1; pte_x=(af:0);
 0:X0=x; 0:X2=PTE(x);
}
 P0          ;
L0:          ;
 LDR W1,[X0] ;
 LDR X3,[X2] ;
exists (0:X1=1 /\\ 0:X3=(oa:PA(x),af:1) /\\ ~fault(P0:L0,x))
";

#[test]
fn mistakes_in_herds_format_are_refused_with_their_line() {
    assert!(herd::parse("good.litmus", GOOD_HERD).is_ok());
    for (good, bad, line, word) in [
        ("AArch64", "X86", 1, "AArch64"),
        ("P0:HA", "P0:HB", 2, "HB"),
        ("nested *)", "nested", 13, "comment"),
        ("(af:0)", "(ag:0)", 5, "ag"),
        ("(af:0)", "(af:2)", 5, "af:2"),
        (" P0  ", " Q0  ", 8, "Q0"),
        (" LDR W1", " LDRR W1", 10, "LDRR"),
        ("X3,[X2] ;", "X3,[X2] | NOP ;", 11, "columns"),
        ("exists (0:X1=1", "exists (7:X1=1", 12, "thread `7`"),
        ("P0:L0,x", "P0:L7,x", 12, "L7"),
        ("P0:L0,x", "P0:L0,w", 12, "`w`"),
        ("exists", "perhaps", 0, "condition"),
        ("exists", "filter (0:X1=1)\nobserved", 13, "`observed` is not supported"),
        ("TTHM=P0:HA", "Variant=vmsa,memtag", 2, "variant `memtag` is not supported"),
        ("int x=1", "int x[2]={1}", 5, "not as many values"),
        ("exists (0:X1=1", "exists ( /\\ 0:X1=1", 12, "expected `PLACE=VALUE` or `fault(…)` at `/\\`"),
    ] {
        let text = GOOD_HERD.replace(good, bad);
        assert_ne!(text, GOOD_HERD, "{good} is not there");
        let error = herd::parse("bad.litmus", &text).expect_err(bad);
        assert_eq!((error.file.as_str(), error.line), ("bad.litmus", line), "{bad}: {error}");
        assert!(error.what.contains(word), "{bad}: {error}");
    }
}

/// Lines of all published tests in another order, some of them damaged.
#[test]
fn fuzz_tests_are_read_or_refused() {
    let isla = ["system-vmsa", "system-models", "archsem"].map(|folder| files(folder, "toml")).concat();
    let herd = ["herd-vmsa", "herd-bbm", "herd-small"].map(|folder| files(folder, "litmus")).concat();
    for (name, files, parse) in
        [("fuzz_tests", isla, isla::parse as fn(&str, &str) -> _), ("fuzz_tests", herd, herd::parse)]
    {
        let read = |bytes: &[u8]| {
            if let Err(error) = parse("file", &String::from_utf8_lossy(bytes)) {
                assert!(!error.what.is_empty(), "{error}");
            }
        };
        // The lines of one test, so that a part of them stays one.
        let make = |random: &mut Seed| damaged(&random.pick(&files).1.lines().collect::<Vec<_>>(), random);
        feed(name, make, read);
    }
}
