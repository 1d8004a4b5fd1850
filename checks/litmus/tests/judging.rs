//! What a table says is held against what is found: each kind of lie is noticed.

use std::fs;
use std::path::PathBuf;

use litmus::suite::{self, Sum};

const TEST: &str = r#"
arch = "AArch64"
name = "unmapped"
symbolic = ["x"]
page_table_setup = """
    physical pa1;
    x |-> pa1;
    x ?-> invalid;
    *pa1 = 7;
    identity 0x1000 with code;
"""
[thread.0]
code = """
    STR XZR,[X2]
    DSB SY
    TLBI VAE1IS,X3
    DSB SY
    LDR X0,[X1]
"""
[thread.0.reset]
R1 = "x"
R2 = "pte3(x, page_table_base)"
R3 = "page(x)"
VBAR_EL1 = "0x1000"
"PSTATE.EL" = "0b01"
[section.handler]
address = "0x1000"
code = "MOV X0,#1"
[final]
assertion = "0:X0 = 7"
"#;

/// A folder of its own with the test and a table.
fn folder(name: &str, table: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("judging").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("unmapped.toml"), TEST).expect("a test");
    fs::write(folder.join(suite::TABLE), table).expect("a table");
    folder
}

fn wrong(name: &str, row: &str) -> (Vec<String>, Sum) {
    let items = suite::collect(&[folder(name, row)]).expect("a good folder");
    let (mut sum, mut wrong) = (Sum::default(), Vec::new());
    for item in &items {
        let done = suite::run(item);
        sum.add(item, &done);
        wrong.extend(done.wrong);
    }
    (wrong, sum)
}

/// Without FEAT_ETS2 a TLBI is complete for its own CPU only after a context synchronization event.
#[test]
fn a_table_that_tells_the_truth_is_silent() {
    let (wrong, sum) = wrong("true", "unmapped.toml\tA\treached\tF\tnever\tsilent\tsilent\t\n");
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((sum.run, sum.verdicts, sum.contradicted, sum.wrong), (1, [1, 0, 1, 0], 0, 0));
    assert_eq!(sum.to_string(), "1 run, 0 refused");
}

#[test]
fn each_kind_of_lie_is_noticed() {
    for (name, row, word) in [
        (
            "never",
            "unmapped.toml\tA\treached\tA\treached\tsilent\tsilent\t\n",
            "with FEAT_ETS2: the table says reached",
        ),
        (
            "forbidden",
            "unmapped.toml\tF\tnever\tF\tnever\tsilent\tsilent\t\n",
            "forbidden by its authors, reached by us",
        ),
        ("flag", "unmapped.toml\tA\treached\tF\tnever\tflag\tflag\t\n", "break-before-make: the table says flag"),
        ("unlisted", "# nothing\n", "no row of"),
        ("unread", "unmapped.toml\tA\treached\tF\tunread\tsilent\tsilent\tx\n", "the table says unread"),
    ] {
        let (wrong, sum) = wrong(name, row);
        assert_eq!((wrong.len(), sum.wrong), (1, 1), "{name}: {wrong:?}");
        assert!(wrong[0].contains(word), "{name}: {}", wrong[0]);
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let absent = folder("absent", "gone.toml\tF\tnever\tF\tnever\t-\t-\t\n");
    let error = suite::collect(&[absent]).expect_err("a row about nothing");
    assert!(error.to_string().ends_with("verdicts.tsv:1: `gone.toml` is not there"), "{error}");
    let garbled = folder("garbled", "one field\n");
    assert!(suite::collect(&[garbled]).expect_err("no row").to_string().contains("8 fields"));
    let nowhere = suite::collect(&[PathBuf::from("/nowhere/at/all")]).expect_err("no folder");
    assert!(nowhere.to_string().contains("no such file"), "{nowhere}");
}

/// A table may say what is published alone.
#[test]
fn a_row_need_not_say_what_we_find() {
    assert_eq!(wrong("bare-good", "unmapped.toml\tA\t\tF\n").0, Vec::<String>::new());
    let (bad, sum) = wrong("bare-bad", "unmapped.toml\tF\n");
    assert!(
        bad.len() == 1 && bad[0].contains("verdicts.tsv:1: ") && bad[0].contains("forbidden by its authors"),
        "{bad:?}"
    );
    assert_eq!((sum.contradicted, sum.wrong), (1, 1));
    let (bad, _) = wrong("bare-flag", "unmapped.toml\tA\t\tF\t\tflag\n");
    assert!(bad.len() == 1 && bad[0].contains("the table says flag"), "{bad:?}");
}

/// A published verdict of a file that is not run is not kept.
#[test]
fn what_is_not_run_is_not_as_published() {
    let folder = folder("bare-unread", "unmapped.toml\tF\n");
    fs::write(folder.join("unmapped.toml"), TEST.replace("LDR X0,[X1]", "FADD D0,D1,D2")).expect("a test");
    let items = suite::collect(&[folder]).expect("a good folder");
    let wrong = suite::run(&items[0]).wrong;
    assert!(wrong[0].contains("forbidden by its authors, and not run") && wrong[1].contains("FADD"), "{wrong:?}");
}

/// What is refused is counted by what stood in the way.
#[test]
fn what_is_refused_is_counted_by_construct() {
    let folder = folder("refused", "");
    fs::remove_file(folder.join(suite::TABLE)).expect("no table");
    for (name, code) in
        [("one", "FADD D0,D1,D2"), ("two", "FADD D0,D1,D2"), ("three", "TLBI FOO"), ("four", "LDR X0 X1")]
    {
        fs::write(folder.join(name).with_extension("toml"), TEST.replace("LDR X0,[X1]", code)).expect("a test");
    }
    let mut sum = Sum::default();
    for item in suite::collect(&[folder]).expect("a good folder") {
        sum.add(&item, &suite::run(&item));
    }
    assert_eq!(sum.to_string(), "1 run, 4 refused (instruction FADD: 2, TLBI FOO: 1, instruction LDR: 1)");
}

/// A test that asks whether its condition always holds shows that it may hold, when it does.
#[test]
fn what_always_holds_is_reached() {
    let folder = folder("always", "unmapped.toml\tA\treached\tF\tnever\ncalls.litmus\tA\nnever.litmus\tA\n");
    let text = |value: u8| format!("AArch64 calls\n{{\n0:X0=1;\n}}\n P0  ;\n NOP ;\nforall (0:X0={value})\n");
    fs::write(folder.join("calls.litmus"), text(1)).expect("a test");
    fs::write(folder.join("never.litmus"), text(2)).expect("a test");
    let mut sum = Sum::default();
    for item in suite::collect(&[folder]).expect("a good folder") {
        sum.add(&item, &suite::run(&item));
    }
    assert_eq!((sum.verdicts, sum.contradicted), ([1, 0, 2, 1], 0));
}

/// A file that is no text is refused with the line.
#[test]
fn what_is_no_text_is_refused_with_its_line() {
    let folder = folder("bytes", "unmapped.toml\tF\n");
    fs::write(folder.join("unmapped.toml"), b"arch = \"AArch64\"\n# \xff\n").expect("a test");
    let error = suite::read(&folder.join("unmapped.toml")).expect_err("accepted");
    assert_eq!((error.line, error.what.as_str()), (2, "a byte that is not text, expected UTF-8"));
}
