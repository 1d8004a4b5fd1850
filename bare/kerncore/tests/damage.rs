//! Damage to a device tree as a whole and to its structure, as the lines that people see.

mod support;

use expect_test::expect;
use support::tree::{self, node, parent, reg, virt_but, virt_with_property};
use support::{MIB, lines, read};

/// `virt` with a big-endian word of the blob overwritten.
fn virt_with_word(offset: usize, word: u32) -> Vec<u8> {
    let mut blob = tree::virt().to_dtb();
    blob[offset..offset + 4].copy_from_slice(&word.to_be_bytes());
    blob
}

/// The word of `virt`'s header with this index.
fn header(index: usize) -> usize {
    let blob = tree::virt().to_dtb();
    u32::from_be_bytes(blob[4 * index..4 * index + 4].try_into().unwrap()) as usize
}

#[test]
fn the_blob_as_a_whole() {
    let whole = tree::virt().to_dtb();
    let blobs = [
        ("missing", vec![]),
        ("a piece of a header", whole[..20].to_vec()),
        ("bad magic", virt_with_word(0, 0xedfe_0dd0)),
        ("too new", virt_with_word(24, 18)),
        ("too old", virt_with_word(20, 16)),
        ("no size", virt_with_word(4, 39)),
        ("truncated", whole[..whole.len() - 4].to_vec()),
        ("structure beyond the end", virt_with_word(8, 0x7fff_fff0)),
        ("structure misaligned", virt_with_word(8, header(2) as u32 + 2)),
        ("strings beyond the end", virt_with_word(32, u32::MAX)),
        ("reservations beyond the end", virt_with_word(16, u32::MAX)),
    ];
    expect![[r#"
        missing:
        fatal: device tree: none was passed; expected its address in x0 at entry, so no memory is known
        a piece of a header:
        fatal: device tree: 20 bytes in all, expected at least the 40 of a header; not read
        bad magic:
        fatal: device tree: begins with 0xedfe0dd0, expected 0xd00dfeed; not read
        too new:
        fatal: device tree: version 17, compatible down to 18; expected to be readable as 17; not read
        too old:
        fatal: device tree: version 16, compatible down to 16; expected to be readable as 17; not read
        no size:
        fatal: device tree: 39 bytes in all, expected at least the 40 of a header; not read
        truncated:
        fatal: device tree: header says 1699 bytes, but 1695 are there; reservations may be missing
        structure beyond the end:
        fatal: device tree: structure block of 1408 bytes at offset 0x7ffffff0, expected it aligned and inside the blob
        fatal: device tree: ends inside the structure at offset 0x7ffffff0, expected the end token; the rest is missing
        structure misaligned:
        fatal: device tree: structure block of 1408 bytes at offset 0x3a, expected it aligned and inside the blob
        fatal: device tree: token 0x10000 at offset 0x3a, expected 1, 2, 3, 4 or 9; the rest is not read
        strings beyond the end:
        fatal: device tree: strings block of 4294967295 bytes at offset 0x5b8, expected it aligned and inside the blob
        reservations beyond the end:
        fatal: device tree: reservation block of 16 bytes at offset 0xffffffff, expected it aligned and inside the blob
        fatal: device tree: the /memreserve/ list has no end, expected an entry of two zeros; reservations may be wrong
    "#]]
    .assert_eq(&lines(blobs));
}

#[test]
fn the_structure() {
    let structure = header(2);
    let mut nested = tree::virt().to_dtb();
    let end = structure + header(9);
    nested[end - 8..end].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 9]);
    let blobs = [
        ("bad token", virt_with_word(structure, 7)),
        ("ends at once", virt_with_word(structure, 9)),
        ("ends before it begins", virt_with_word(structure, 2)),
        ("property outside", virt_with_word(structure, 3)),
        ("value without end", virt_with_word(structure + 12, u32::MAX)),
        ("property without name", virt_with_word(structure + 16, u32::MAX)),
        ("a node is not closed", nested),
        ("cut short", virt_with_word(36, 0x40)),
        ("cut in a name", virt_with_word(36, 6)),
    ];
    expect![[r#"
        bad token:
        fatal: device tree: token 0x7 at offset 0x38, expected 1, 2, 3, 4 or 9; the rest is not read
        ends at once:
        warning: device tree: no stdout-path, expected it in /chosen, with the console's path; there is no console
        warning: device tree: no interrupt controller, expected an enabled arm,gic-v3, arm,cortex-a15-gic or arm,gic-400; there are no interrupts
        warning: device tree: no CPU, expected one with device_type "cpu" in /cpus; only the CPU that booted runs
        fatal: device tree: no usable memory, expected a node /memory with device_type "memory" and a reg
        ends before it begins:
        fatal: device tree: node ends and begins do not match at offset 0x38; the rest is not read
        property outside:
        fatal: device tree: property at offset 0x38 outside a node's head, expected before its subnodes; the rest is not read
        value without end:
        fatal: device tree: ends inside a property at offset 0x40, expected the end token; the rest is missing
        property without name:
        fatal: device tree: property at offset 0x40 has its name at 0xffffffff, expected it inside the strings block; the rest is not read
        a node is not closed:
        fatal: device tree: node ends and begins do not match at offset 0x5b0; the rest is not read
        cut short:
        fatal: device tree: ends inside a property at offset 0x70, expected the end token; the rest is missing
        cut in a name:
        fatal: device tree: ends inside the structure at offset 0x40, expected the end token; the rest is missing
    "#]].assert_eq(&lines(blobs));
}

#[test]
fn nesting() {
    let chain = |depth: usize| {
        let leaf = node("leaf", []);
        let chain = (1..depth).fold(leaf, |below, _| parent(node("bus", []), [below]));
        virt_but(|tree| tree.root.add_child(chain))
    };
    let blobs = [("15 levels below the root", chain(15)), ("17 levels", chain(17))];
    expect![[r#"
        15 levels below the root:
        17 levels:
        warning: device tree: node bus is nested too deep, expected 16 levels at most; ignored
        warning: device tree: node leaf is nested too deep, expected 16 levels at most; ignored
    "#]]
    .assert_eq(&lines(blobs));
}

/// When there are more findings than are kept, the one that stops the boot is among them.
#[test]
fn the_fatal_one_is_kept() {
    let banks: Vec<_> = (0..60).map(|bank| (bank * MIB, 0)).collect();
    let blob = virt_with_property("/memory@40000000", reg(&banks));
    let (_, findings) = read(&blob);
    expect![[r#"device tree: no usable memory, expected a node /memory with device_type "memory" and a reg"#]]
        .assert_eq(&findings.fatal().unwrap().to_string());
    assert_eq!((findings.iter().count(), findings.dropped()), (32, 29));
}
