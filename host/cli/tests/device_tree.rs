//! Plans of the memory that a device tree tells of.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const STRINGS: &[u8] = b"#address-cells\0#size-cells\0device_type\0reg\0no-map\0ranges\0";

/// A blob in the making: its structure block.
#[derive(Default)]
struct Blob(Vec<u8>);

impl Blob {
    fn word(&mut self, word: u32) {
        self.0.extend(word.to_be_bytes());
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn begin(&mut self, name: &str) {
        self.word(1);
        self.padded(format!("{name}\0").as_bytes());
    }

    fn end(&mut self) {
        self.word(2);
    }

    fn property(&mut self, name: &str, value: &[u8]) {
        let wanted = format!("{name}\0");
        let at = STRINGS.windows(wanted.len()).position(|part| part == wanted.as_bytes()).expect("a known name");
        self.word(3);
        self.word(value.len() as u32);
        self.word(at as u32);
        self.padded(value);
    }

    fn cells(&mut self) {
        self.property("#address-cells", &2u32.to_be_bytes());
        self.property("#size-cells", &2u32.to_be_bytes());
    }

    fn reg(&mut self, start: u64, bytes: u64) {
        self.property("reg", &[start.to_be_bytes(), bytes.to_be_bytes()].concat());
    }

    /// With its header, an empty list of reservations, and its strings.
    fn whole(mut self) -> Vec<u8> {
        self.word(9);
        let (structure, strings) = (56, 56 + self.0.len());
        let all = strings + STRINGS.len();
        let header = [0xd00d_feed, all, structure, strings, 40, 17, 16, 0, STRINGS.len(), self.0.len()];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word| (*word as u32).to_be_bytes()).collect();
        bytes.extend([0; 16]);
        bytes.extend(self.0);
        bytes.extend(STRINGS);
        bytes
    }
}

/// Two banks of 256M, if there are any, and 2M in the first that nobody may map; nothing of CPUs.
fn tree(has_memory: bool) -> Vec<u8> {
    let mut blob = Blob::default();
    blob.begin("");
    blob.cells();
    for start in if has_memory { &[0x4000_0000u64, 0x8000_0000][..] } else { &[] } {
        blob.begin(&format!("memory@{start:x}"));
        blob.property("device_type", b"memory\0");
        blob.reg(*start, 256 << 20);
        blob.end();
    }
    blob.begin("reserved-memory");
    blob.cells();
    blob.property("ranges", &[]);
    blob.begin("firmware@48000000");
    blob.reg(0x4800_0000, 2 << 20);
    blob.property("no-map", &[]);
    blob.end();
    blob.end();
    blob.end();
    blob.whole()
}

fn plan(name: &str, bytes: &[u8]) -> (Output, String) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.dtb", std::process::id()));
    fs::write(&path, bytes).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vellum"));
    command.args(["plan", "--page-size", "4k", "--policy", "largest", "--json", "--memory"]);
    let output = command.arg(format!("dtb:{}", path.display())).output().expect("it runs");
    fs::remove_file(path).expect("removed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn banks_are_planned_without_what_nobody_may_map() {
    let (output, said) = plan("banks", &tree(true));
    let text = String::from_utf8_lossy(&output.stdout);
    let mapped = format!("\"mapped_bytes\":{}", (512u64 - 2) << 20);
    assert!(output.status.success() && text.contains(&mapped), "{text}{said}");
    // Of CPUs, consoles and interrupts the tree tells nothing, which is nothing to a plan.
    assert_eq!(said, "");
}

#[test]
fn a_tree_that_cannot_be_read_says_what_to_do() {
    let good = tree(true);
    let mut other = good.clone();
    other[0] = 0;
    for (name, bytes) in
        [("empty", &[][..]), ("cut", &good[..good.len() / 2]), ("short", &good[..20]), ("other", &other)]
    {
        let (output, said) = plan(name, bytes);
        let is_told = said.contains(
            ".dtb: no device tree, or a damaged one: save it again with dtc -O dtb, or qemu -M virt,dumpdtb=FILE",
        );
        assert!(output.status.code() == Some(2) && is_told && said.lines().count() == 1, "{name}: {said}");
    }
    let (output, said) = plan("none", &tree(false));
    let is_told = said.contains("it tells of no memory, expected a node /memory") && said.lines().count() == 1;
    assert!(output.status.code() == Some(2) && is_told, "{said}");
}

/// Memory below, at and above 2^48, in each granule: what lies above needs 52-bit addresses, and only then that is said.
#[test]
fn memory_above_48_bits_says_what_it_needs() {
    const END: u64 = 1 << 48;
    for (page_size, feature) in [("4k", "LPA2 (FEAT_LPA2)"), ("16k", "LPA2 (FEAT_LPA2)"), ("64k", "LPA (FEAT_LPA)")] {
        for (end, is_wide) in [(END - 0x1_0000, false), (END, false), (END + 0x1_0000, true), (END << 3, true)] {
            let banks = format!("{:#x}-{end:#x}", end - 0x100_0000);
            let output = Command::new(env!("CARGO_BIN_EXE_vellum"))
                .args(["plan", "--memory", &banks, "--page-size", page_size, "--policy", "largest"])
                .output()
                .expect("vellum runs");
            let said = String::from_utf8_lossy(&output.stderr);
            let sentence = format!("what lies above 2^48 needs 52-bit addresses: {feature} with ");
            assert_eq!(output.status.code(), Some(0), "{banks}: {said}");
            assert_eq!(said.matches(&sentence).count(), usize::from(is_wide), "{page_size}, {banks}: {said}");
            assert_eq!(said.contains("2^48"), is_wide, "{page_size}, {banks}: {said}");
        }
    }
    // One page of each: the sentence follows the page size.
    let both = Command::new(env!("CARGO_BIN_EXE_vellum"))
        .args(["plan", "--memory", "0x1000000000000-0x1000000100000", "--page-size", "4k,64k"])
        .output()
        .expect("vellum runs");
    let said = String::from_utf8_lossy(&both.stderr);
    assert!(said.contains("FEAT_LPA2) with 4K pages") && said.contains("FEAT_LPA) with 64K pages"), "{said}");
}
