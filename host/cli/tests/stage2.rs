//! Stage 2 in images made here: roots of every kind, concatenated ones too, and a guest's stage 1 read through one.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use expect_test::expect;
use tables::{Image, Tree};

const BASE: u64 = 0x4000_0000;

/// S2AP read-write, access flag, MemAttr write-back; and the same with SH inner shareable, which LPA2 has elsewhere.
const LEAF: u64 = 0b11 << 6 | 1 << 10 | 0b1111 << 2;
const SHARED: u64 = 0b11 << 8;

fn vellum(image: &Image, name: &str, arguments: &[&str]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("stage2-{}-{name}", std::process::id()));
    fs::write(&path, &image.bytes).expect("written");
    let source = format!("raw:{}@{:#x}", path.display(), image.base);
    let words = [&["dump", &source], arguments].concat();
    let output = Command::new(env!("CARGO_BIN_EXE_vellum")).args(&words).output().expect("vellum runs");
    fs::remove_file(path).expect("removed");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The leaves of a JSON dump: input, output, level.
fn leaves(json: &str) -> BTreeSet<(u64, u64, i64)> {
    let records = json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let number = |record: &serde_json::Value, key: &str| {
        u64::from_str_radix(record[key].as_str().expect("text").trim_start_matches("0x"), 16).expect("hexadecimal")
    };
    let of = |record: serde_json::Value| {
        assert_eq!(record["leaves"], 1, "{record}");
        (number(&record, "input"), number(&record, "output"), record["level"].as_i64().expect("a level"))
    };
    records.filter(|record| record["kind"] == "leaves").map(of).collect()
}

/// VTCR_EL2 with 48-bit (or, with DS, 52-bit) outputs.
fn vtcr(bits: u32, tg0: u64, sl0: u64, has_ds: bool, sl2: u64) -> u64 {
    let output_size = if has_ds { 6 } else { 5 };
    u64::from(64 - bits)
        | sl0 << 6
        | 0x3500
        | tg0 << 14
        | output_size << 16
        | 1 << 31
        | u64::from(has_ds) << 32
        | sl2 << 33
}

/// D8.2.10 and VTCR_EL2: granule, bits, TG0, SL0, DS, SL2; start level, tables side by side.
#[test]
fn every_kind_of_root_is_walked_to_its_ends() {
    let rows = [
        ((12, 39, 0, 1, false, 0), (1, 1)),
        ((12, 40, 0, 1, false, 0), (1, 2)),
        ((12, 43, 0, 1, false, 0), (1, 16)),
        ((12, 34, 0, 0, false, 0), (2, 16)),
        ((12, 48, 0, 2, false, 0), (0, 1)),
        ((12, 25, 0, 3, false, 0), (3, 16)),
        ((14, 40, 2, 1, false, 0), (2, 16)),
        ((14, 48, 2, 2, false, 0), (1, 2)),
        ((16, 44, 1, 1, false, 0), (2, 4)),
        ((16, 31, 1, 0, false, 0), (3, 4)),
        ((12, 52, 0, 0, true, 1), (-1, 1)),
        ((12, 52, 0, 2, true, 0), (0, 16)),
        ((14, 52, 2, 3, true, 0), (0, 1)),
    ];
    for ((granule, bits, tg0, sl0, has_ds, sl2), (start, side_by_side)) in rows {
        let mut image = Image::new(BASE);
        let tree = Tree::new(&mut image, granule, start, bits);
        let table_bits = bits - (side_by_side as u32).ilog2();
        let mut expected = BTreeSet::new();
        let mut output = 0x8000_0000;
        let mut take = |image: &mut Image| image.take(1 << granule);
        let attributes = if has_ds { LEAF } else { LEAF | SHARED };
        // The first and last page of each table of the root, and a block where there can be one.
        let ends = (0..side_by_side)
            .flat_map(|table: u64| [table << table_bits, ((table + 1) << table_bits) - (1 << granule)]);
        for input in ends {
            output += 3 << granule;
            tree.map(&mut image, &mut take, (input, output), 3, attributes);
            expected.insert((input, output, 3));
        }
        if start < 2 {
            let (input, block) = (1 << tree.shift(2), 0x1_0000_0000);
            tree.map(&mut image, &mut take, (input, block), 2, attributes);
            expected.insert((input, block, 2));
        }
        let (vttbr, vtcr) = (format!("{:#x}", tree.root), format!("{:#x}", vtcr(bits, tg0, sl0, has_ds, sl2)));
        let how = ["--vttbr", &vttbr, "--vtcr", &vtcr, "--part", "stage2", "--json"];
        let json = vellum(&image, &format!("{granule}-{bits}-{start}"), &how);
        assert_eq!(leaves(&json), expected, "granule 2^{granule}, {bits} bits, level {start}, {side_by_side} tables");
    }
}

#[test]
fn stage_2_as_text() {
    let mut image = Image::new(BASE);
    let tree = Tree::new(&mut image, 12, 1, 40);
    let mut take = |image: &mut Image| image.take(0x1000);
    let block = |kind: u64| (0b11 << 6 | SHARED | 1 << 10) | kind << 2;
    tree.map(&mut image, &mut take, (0x800_0000, 0x800_0000), 2, block(1) & !SHARED | 0b10 << 53);
    tree.map(&mut image, &mut take, (0x4000_0000, 0x8000_0000), 1, block(15));
    for page in 0..16 {
        let at = page * 0x1000;
        tree.map(
            &mut image,
            &mut take,
            (0x80_0000_0000 + at, 0x9000_0000 + at),
            3,
            LEAF | SHARED | 1 << 52 | 0b11 << 53,
        );
    }
    tree.map(&mut image, &mut take, (0x80_0020_0000, 0xa000_0000), 3, 0b01 << 6 | SHARED | 5 << 2 | 0b01 << 53);
    let vttbr = format!("{:#x}", tree.root);
    let how = ["--vttbr", &vttbr, "--vtcr", "0x80053558", "--part", "stage2"];
    expect![[r#"
        0x0000000000000000-0x0000000008000000         128M PMD
        0x0000000008000000-0x0000000008200000           2M PMD   R W NX     AF     BLK DEVICE/nGnRE
        0x0000000008200000-0x0000000040000000         894M PMD
        0x0000000040000000-0x0000000080000000           1G PGD   R W x  SHD AF     BLK MEM/NORMAL
        0x0000000080000000-0x0000008000000000         510G PGD
        0x0000008000000000-0x0000008000010000          64K PTE   R W xp SHD AF CON     MEM/NORMAL
        0x0000008000010000-0x0000008000200000        1984K PTE
        0x0000008000200000-0x0000008000201000           4K PTE   R   xu SHD            MEM/NORMAL-NC
        0x0000008000201000-0x0000008000400000        2044K PTE
        0x0000008000400000-0x0000008040000000        1020M PMD
        0x0000008040000000-0x0000010000000000         511G PGD
    "#]]
    .assert_eq(&vellum(&image, "text", &how));
    // FWB gives MemAttr another meaning.
    let forced = vellum(&image, "fwb", &[&how[..], &["--hcr", "0x400000000001", "--only", "cont"]].concat());
    expect![[r#"
        0x0000008000000000-0x0000008000010000          64K PTE   R W xp SHD AF CON     MEM/OTHER
    "#]]
    .assert_eq(&forced);
}

/// A guest whose pages stage 2 scatters: its stage 1 reads as if they were not.
#[test]
fn a_guests_tables_are_read_through_its_stage_2() {
    const PAGES: u64 = 64;
    let mut image = Image::new(BASE);
    let stage2 = Tree::new(&mut image, 12, 1, 40);
    let memory = image.take(PAGES << 12);
    let place = |page: u64| memory + ((page * 29 % PAGES) << 12);
    let mut take = |image: &mut Image| image.take(0x1000);
    for page in 0..PAGES {
        stage2.map(&mut image, &mut take, (0x80_0000_0000 + (page << 12), place(page)), 3, LEAF | SHARED);
    }
    let behind: BTreeMap<u64, u64> = (0..PAGES).map(|page| (0x80_0000_0000 + (page << 12), place(page))).collect();
    let guest = Tree { granule: 12, start: 0, bits: 48, root: 0x80_0000_0000, behind: Some(behind) };
    let mut flat = Image::new(0x80_0000_0000);
    let same = Tree::new(&mut flat, 12, 0, 48);
    let mut next = guest.root;
    for index in 0..20u64 {
        let leaf = (0xffff_0000_0000_0000 + index * 0x4000_0000, 0x80_0000_0000 + (index << 12));
        let mut take_guest = |_: &mut Image| {
            next += 0x1000;
            next
        };
        guest.map(&mut image, &mut take_guest, leaf, 3, 0x0060_0000_0000_0700);
        same.map(&mut flat, &mut take, leaf, 3, 0x0060_0000_0000_0700);
    }
    let (vttbr, root) = (format!("{:#x}", stage2.root), format!("{:#x}", guest.root));
    let stage1 = ["--ttbr1", &root, "--tcr", "0x15b5103510", "--markers", "none"];
    let through = vellum(&image, "guest", &[&stage1[..], &["--vttbr", &vttbr, "--vtcr", "0x80053558"]].concat());
    let plain = vellum(&flat, "flat", &stage1);
    assert_eq!(through, plain);
    assert_eq!(through.lines().filter(|line| line.contains("4K PTE       RW")).count(), 20, "{through}");
}

/// What a hypervisor's stage 2 is made of is no finding for a CI: a guest's memory that it writes and executes, devices that it does not
/// execute. That a guest reaches its own stage 2 is a risk, and blocks that could be larger are a cost; `--fail-from` says what fails.
#[test]
fn a_hypervisors_stage_2_can_be_green() {
    const DEVICE: u64 = (LEAF & !(0b1111 << 2)) | 1 << 2 | 0b10 << 53;
    let check = |name: &str, outputs: &[u64], expected: [i32; 3], kind: &str| {
        let mut image = Image::new(BASE);
        let tree = Tree::new(&mut image, 12, 1, 40);
        let mut take = |image: &mut Image| image.take(0x1000);
        tree.map(&mut image, &mut take, (0x900_0000, 0x900_0000), 3, DEVICE);
        for (place, output) in (0..).zip(outputs) {
            tree.map(&mut image, &mut take, (0x4000_0000 + (place << 21), *output), 2, LEAF | SHARED);
        }
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("green-{}-{name}", std::process::id()));
        fs::write(&path, &image.bytes).expect("written");
        let (source, vttbr) = (format!("raw:{}@{BASE:#x}", path.display()), format!("{:#x}", tree.root));
        let how = ["check", &source, "--part", "stage2", "--vttbr", &vttbr, "--vtcr", "0x80053558"];
        let fails: [&[&str]; 3] = [&[], &["--fail-from", "risk"], &["--fail-from", "danger"]];
        for (fail, status) in fails.into_iter().zip(expected) {
            let words = [&how[..], fail].concat();
            let output = Command::new(env!("CARGO_BIN_EXE_vellum")).args(&words).output().expect("vellum runs");
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(status), "{name} {fail:?}: {text}");
            assert!(text.contains(kind) && !text.contains("EL1") && !text.contains(" wx"), "{name}: {text}");
        }
        fs::remove_file(path).expect("removed");
    };
    check("scattered", &[0x8000_0000, 0x9000_0000, 0x8800_0000], [0, 0, 0], "clean: nothing found");
    let one_after_another: Vec<u64> = (0..16).map(|block| 0x8000_0000 + (block << 21)).collect();
    check("large", &one_after_another, [1, 0, 0], "larger: leaves");
    check("its own tables", &[BASE], [1, 1, 0], "guest-table: a page table");
}
