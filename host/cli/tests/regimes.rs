//! Regimes by hand, on an image of memory made here; and reports of faults as a user gives them to `vellum decode`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use expect_test::expect;

const BASE: u64 = 0x4000_0000;

/// Three blocks, and a table of level 3 with a reserved entry, one that software holds, and a page.
fn image() -> Vec<u8> {
    let mut image = vec![0; 0x3000];
    let [root, middle, last] = [0, 1, 2].map(|table| BASE + table * 0x1000);
    for (at, word) in [
        (root, 0x0040_0000_0000_0445),
        (root + 8, 0x0000_0000_4000_07c1),
        (root + 16, 0x0060_0000_8000_0f61),
        (root + 24, middle | 3),
        (middle, last | 3),
        (last, 0x0060_0000_4000_0701),
        (last + 8, 0x0060_0000_4000_1702),
        (last + 16, 0x0040_0000_4000_2743),
    ] {
        let at = (at - BASE) as usize;
        image[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
    }
    image
}

fn dump(name: &str, arguments: &[&str]) -> Output {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("regimes-{}-{name}", std::process::id()));
    fs::write(&path, image()).expect("written");
    // As people write an address down.
    let source = format!("raw:{}@40000000", path.display());
    let output = Command::new(env!("CARGO_BIN_EXE_vellum"))
        .args([&["dump", source.as_str(), "--mair", "00ff"], arguments].concat())
        .output()
        .expect("vellum runs");
    fs::remove_file(path).expect("removed");
    output
}

/// The text, without its long tail of holes.
fn text(name: &str, arguments: &[&str]) -> String {
    let output = dump(name, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    let lines = String::from_utf8(output.stdout).expect("text");
    lines.lines().take(6).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn each_regime_by_hand_has_its_words() {
    let one_range = ["--ttbr0", "40000000", "--tcr", "80823519"];
    let el2 = text("el2", &[&["--regime", "el2"][..], &one_range].concat());
    expect![[r#"
        0x0000000000000000-0x0000000040000000           1G PGD       RW NX     AF        BLK        DEVICE/nGnRnE
        0x0000000040000000-0x0000000080000000           1G PGD       ro x  SHD AF        BLK        MEM/NORMAL
        0x0000000080000000-0x00000000c0000000           1G PGD       RW NX SHD AF        BLK        MEM/NORMAL
        0x00000000c0000000-0x00000000c0001000           4K PTE F reserved
        0x00000000c0001000-0x00000000c0002000           4K PTE F held 0x0060000000000702
        0x00000000c0002000-0x00000000c0003000           4K PTE       RW NX SHD AF                   MEM/NORMAL
    "#]]
    .assert_eq(&el2);
    assert_eq!(text("el3", &[&["--regime", "el3"][..], &one_range].concat()), el2);
    // Two privileges: the same tables by the fields of TCR_EL1.
    let host = text("host", &["--regime", "el2&0", "--ttbr0", "0x40000000", "--tcr", "0x80803519"]);
    expect![[r#"
        0x0000000000000000-0x0000000040000000           1G PGD   USR RW x      AF        BLK UXN    DEVICE/nGnRnE
        0x0000000040000000-0x0000000080000000           1G PGD   USR ro x  SHD AF        BLK        MEM/NORMAL
        0x0000000080000000-0x00000000c0000000           1G PGD   USR RW NX SHD AF NG     BLK UXN    MEM/NORMAL
        0x00000000c0000000-0x00000000c0001000           4K PTE F reserved
        0x00000000c0001000-0x00000000c0002000           4K PTE F held 0x0060000000000702
        0x00000000c0002000-0x00000000c0003000           4K PTE   USR RW x  SHD AF            UXN    MEM/NORMAL
    "#]]
    .assert_eq(&host);
    assert_eq!(text("el1", &["--ttbr0", "0x4000_0000UL", "--tcr", "0x80803519"]), host);
    assert_eq!(text("secure", &["--regime", "secure", "--ttbr0", "0d1073741824", "--tcr", "0x80803519"]), host);
    let stage2 =
        text("stage2", &["--regime", "stage2", "--vttbr", "40000000", "--vtcr", "80023559", "--part", "stage2"]);
    expect![[r#"
        0x0000000000000000-0x0000000040000000           1G PGD   R   NX     AF     BLK DEVICE/nGnRE
        0x0000000040000000-0x0000000080000000           1G PGD   R W x  SHD AF     BLK DEVICE/nGnRnE
        0x0000000080000000-0x00000000c0000000           1G PGD   R   xp SHD AF     BLK MEM/OTHER
        0x00000000c0000000-0x00000000c0001000           4K PTE F reserved
        0x00000000c0001000-0x00000000c0002000           4K PTE F held 0x0060000000000702
        0x00000000c0002000-0x00000000c0003000           4K PTE   R   NX SHD AF         DEVICE/nGnRnE
    "#]]
    .assert_eq(&stage2);
}

#[test]
fn registers_of_no_regime_are_refused_in_one_line() {
    for (arguments, expected) in [
        (&["--regime", "el3", "--ttbr1", "0", "--tcr", "0"][..], "EL3 has no TTBR1"),
        (&["--regime", "el2", "--ttbr1", "0", "--tcr", "0"], "EL2 has no TTBR1: give --ttbr0 (EL2 as a host"),
        (&["--regime", "stage2"], "--regime says whose registers are given"),
        (&["--regime", "el4", "--ttbr0", "0", "--tcr", "0"], "possible values"),
        (&["--ttbr0", "0d000044", "--tcr", "0"], "write 0x0d000044 or 0d_000044"),
    ] {
        let output = dump("refused", arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{arguments:?}: {said}");
    }
}

/// `vellum decode` with this on its standard input: exit status, output, and what it says beside.
fn decode(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vellum"))
        .arg("decode")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("vellum runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("read to its end");
    let output = child.wait_with_output().expect("it ends");
    let [text, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    (output.status.code(), text, said)
}

#[test]
fn a_fault_is_read_from_standard_input_or_a_file() {
    let agrees = b"<1>[ 1.0] pmd=0000000000000000\nInternal error: Oops: 96000006 [#1]\n";
    let (status, text, _) = decode(&["oops"], agrees);
    assert!(status == Some(0) && text.contains("agrees:    pmd, of level 2"), "{text}");
    assert_eq!(decode(&["-"], agrees).1, text);
    let (status, text, _) = decode(&["oops", "--json"], b"pmd=0000000000000000 esr=96000007");
    let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &record["agreement"][0]["agrees"]), (Some(1), &false.into()));
    let (status, text, said) = decode(&["oops"], &[0xff, 0, b'\n', 0x80]);
    assert!(status == Some(2) && text.is_empty() && said.lines().count() == 1, "{said}");
    let (status, _, said) = decode(&["oops", "/nonexistent/oops"], b"");
    assert!(status == Some(2) && said.contains("name a file that is there"), "{said}");
    let (status, text, _) = decode(&["esr", "96000044", "--json"], b"");
    let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &record["fields"][1]["value"]), (Some(0), &"0x25".into()));
    // What could be meant as decimal is said to be read as hexadecimal; what cannot is not.
    assert!(decode(&["esr", "96000044"], b"").2.contains("is read as hexadecimal; decimal is 0d96000044"));
    assert_eq!(decode(&["esr", "f2000800"], b"").2, "");
}
