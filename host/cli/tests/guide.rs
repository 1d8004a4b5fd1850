//! What the guide tells a reader to type: every line of a block that is marked `sh` is run, in the workspace, and can be answered.
//! Others are about a dump or a file of the reader's: they are run on such files of this test's. Those that need a guest are
//! understood.

#[path = "tables/mod.rs"]
mod tables;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tables::{Image, Tree};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of the guide's blocks that begin so.
fn lines(mark: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for page in fs::read_dir(root().join("docs/guide")).expect("the guide").flatten() {
        let text = fs::read_to_string(page.path()).expect("text");
        // A block stands between every other pair of marks.
        let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix(mark));
        lines.extend(blocks.flat_map(str::lines).map(str::to_owned));
    }
    lines
}

fn run(line: &str, folder: &Path) -> Output {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("vellum"), "{line}");
    Command::new(env!("CARGO_BIN_EXE_vellum")).args(words).current_dir(folder).output().expect("it runs")
}

#[test]
fn every_command_of_the_guide_runs() {
    let lines = lines("sh\n");
    for line in &lines {
        let output = run(line, &root());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)) && !output.stdout.is_empty(), "{line}: {said}");
    }
    assert!(lines.len() >= 12, "{} commands", lines.len());
}

/// Where the guide says that memory begins, and that a root is.
const BASE: u64 = 0x4000_0000;
const ROOT: u64 = 0x41b5_d000;

/// A kernel's half by pages of 4K: some that can be written, and some only read.
fn memory() -> Vec<u8> {
    let mut image = Image::new(BASE);
    image.take(0x1000);
    image.bytes.resize((ROOT - BASE) as usize, 0);
    let tree = Tree::new(&mut image, 12, 0, 48);
    assert_eq!(tree.root, ROOT);
    let mut take = |image: &mut Image| image.take(0x1000);
    for page in 0..64u64 {
        let attributes = 0x0060_0000_0000_0700 | (page % 2) << 7;
        tree.map(&mut image, &mut take, (0xffff_0000_0000_0000 + page * 0x1000, BASE + page * 0x1000), 3, attributes);
    }
    image.bytes
}

/// The same as an ELF core of one segment, which tells of no registers.
fn core(memory: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 120];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"\x7fELF\x02\x01\x01");
    [(16, 4u16), (18, 183), (52, 64), (54, 56), (56, 1)].iter().for_each(|(at, value)| put(*at, &value.to_le_bytes()));
    [(20, 1u32), (64, 1), (68, 6)].iter().for_each(|(at, value)| put(*at, &value.to_le_bytes()));
    let length = memory.len() as u64;
    [(32, 64u64), (72, 120), (88, BASE), (96, length), (104, length)]
        .iter()
        .for_each(|(at, value)| put(*at, &value.to_le_bytes()));
    bytes.extend(memory);
    bytes
}

/// Lines are run that need no guest: on files of the names that the guide has for the reader's.
#[test]
fn every_other_command_line_is_understood() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guide");
    fs::create_dir_all(&folder).expect("a folder");
    let memory = memory();
    let core = core(&memory);
    let oops = b"[ 1.5] Internal error: Oops: 96000007 [#1] SMP\n".to_vec();
    let files = [("ram.bin", &memory), ("vmcore", &core), ("before", &core), ("after", &core), ("oops.txt", &oops)];
    files.into_iter().for_each(|(name, bytes)| fs::write(folder.join(name), bytes).expect("written"));
    fs::write(folder.join("before.txt"), run("vellum dump core:vmcore", &folder).stdout).expect("written");
    let lines: Vec<String> = lines("\n").into_iter().filter(|line| line.starts_with("vellum ")).collect();
    let mut answered = 0;
    for line in &lines {
        let output = run(line, &folder);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("For more information, try '--help'") && !said.contains("panicked"), "{line}: {said}");
        if !line.contains("qemu") {
            let is_page = said.contains("open it in a browser");
            assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {said}");
            assert!(
                is_page || !output.stdout.is_empty() || line.contains("--only") || line.contains("check"),
                "{line}: {said}"
            );
            answered += 1;
        }
    }
    fs::remove_dir_all(folder).expect("removed");
    assert!(lines.len() >= 9 && answered >= 8, "{} commands, {answered} answered", lines.len());
}
