//! Every published file is read whole, or refused with its line.

use std::fs;
use std::path::{Path, PathBuf};

use litmus::isla;

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
    let files = files("system-vmsa", "toml");
    assert_eq!(files.len(), 132);
    for (file, text) in files {
        let test = isla::parse(&file, &text).unwrap_or_else(|error| panic!("{error}"));
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
        ("pa1;\n    *", "pa1 at level 7;\n    *", 7, "level"),
        ("LDR X0", "LDRR X0", 12, "LDRR"),
        ("R1 = \"x\"", "R1 = \"pte3(x, nowhere)\"", 15, "nowhere"),
        ("R1 = \"x\"", "R99 = \"x\"", 15, "R99"),
        ("0:X0 = 7", "0:X0 ! 7", 17, "="),
        ("0:X0 = 7", "3:X0 = 7", 17, "thread 3"),
        ("name = \"small\"", "name = small", 3, ""),
        ("[final]", "[finally]", 0, "final.assertion"),
    ] {
        let text = GOOD.replace(good, bad);
        assert_ne!(text, GOOD, "{good} is not there");
        let error = isla::parse("bad.toml", &text).expect_err(bad);
        assert_eq!((error.file.as_str(), error.line), ("bad.toml", line), "{bad}: {error}");
        assert!(error.what.contains(word), "{bad}: {error}");
    }
}
