//! The published sample, and what its merging rules imply.

extern crate std;
use std::string::String;

use super::*;

const NAMING: Naming = Naming {
    page_size: PageSize::Size4K,
    start: Level::L0,
    layout: Layout::Bits48,
    memory: MemoryTypes::COMMON,
    shareability: 3,
    has_one_privilege: false,
};

const BASE: u64 = 0xffff_0000_0000_0000;

/// Normal-Tagged, AF, inner shareable, never executable.
const TAGGED: u64 = 0x0060_0000_0000_0704;

fn dump(naming: Naming, markers: &[Marker<'_>], entries: &[(u64, Level, u64)], end: u64) -> String {
    let mut dump = Ptdump::new(String::new(), naming, markers);
    for &(address, level, bits) in entries {
        dump.entry(address, level, Descriptor::new(bits)).unwrap();
    }
    dump.finish(end).unwrap()
}

#[test]
fn the_published_sample_comes_out_byte_for_byte() {
    let mut entries = std::vec![(BASE, Level::L2, TAGGED | 0b01)];
    for page in 0..16 {
        let bits = TAGGED | Descriptor::CONTIGUOUS | 0b11 | page << 12;
        entries.push((BASE + 0x20_0000 + (page << 12), Level::L3, bits));
    }
    entries.push((BASE + 0x21_0000, Level::L3, 0x0060_0000_0000_0783));
    entries.push((BASE + 0x40_0000, Level::L2, 0));
    let text = dump(NAMING, &[Marker { address: BASE, name: "Linear Mapping start" }], &entries, BASE + 0x400_0000);
    assert_eq!(
        text,
        "---[ Linear Mapping start ]---
0xffff000000000000-0xffff000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED
0xffff000000200000-0xffff000000210000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL-TAGGED
0xffff000000210000-0xffff000000400000        1984K PTE       ro NX SHD AF            UXN    MEM/NORMAL
0xffff000000400000-0xffff000004000000          60M PMD
"
    );
}

#[test]
fn holes_and_markers_close_lines() {
    let markers = [
        Marker { address: BASE, name: "Linear Mapping start" },
        Marker { address: BASE + (8 << 39), name: "Linear Mapping end" },
    ];
    let entries: std::vec::Vec<_> = (0..256).map(|index| (BASE + (index << 39), Level::L0, 0)).collect();
    let text = dump(NAMING, &markers, &entries, 0xffff_8000_0000_0000);
    assert_eq!(
        text,
        "---[ Linear Mapping start ]---
0xffff000000000000-0xffff040000000000           4T PGD
---[ Linear Mapping end ]---
0xffff040000000000-0xffff800000000000         124T PGD
"
    );
}

/// What software keeps in an invalid descriptor is not printed as if a walk read it.
#[test]
fn the_last_line_ends_at_zero_and_what_is_invalid_has_no_fields() {
    let kept = TAGGED & !0b11 | Stage1Attributes::NOT_GLOBAL.bits();
    let entries = [
        (0xffff_ffff_ffc0_0000, Level::L2, kept),
        (0xffff_ffff_ffe0_0000, Level::L2, 0b10 | Stage1Attributes::AF.bits()),
    ];
    assert_eq!(
        dump(NAMING, &[], &entries, 0),
        "0xffffffffffc00000-0xffffffffffe00000           2M PMD F held 0x0060000000000f04\n\
         0xffffffffffe00000-0x0000000000000000           2M PMD F held 0x0000000000000402\n"
    );
}

/// Every type at every level, by granule and layout: what is no leaf is printed as none.
#[test]
fn what_is_reserved_is_not_mapped() {
    for page_size in PageSize::ALL {
        let layouts = match page_size {
            PageSize::Size64K => [Layout::Bits48, Layout::Lpa],
            _ => [Layout::Bits48, Layout::Lpa2],
        };
        for layout in layouts {
            for level in Level::ALL {
                let naming = Naming { page_size, layout, start: Level::MINUS_1, ..NAMING };
                let line = |kind: u64| dump(naming, &[], &[(0, level, TAGGED & !0xff00 | kind)], 1 << 52);
                assert!(
                    line(0b00).contains(" F held 0x") && line(0b10).contains(" F held 0x"),
                    "{page_size} {layout:?} {level}"
                );
                let block = line(0b01);
                let is_block = level != Level::L3 && page_size.has_leaf(level, layout);
                assert_eq!(block.contains(" BLK "), is_block, "{page_size} {layout:?} {level}: {block}");
                assert_eq!(block.ends_with(" F reserved\n"), !is_block, "{page_size} {layout:?} {level}: {block}");
            }
        }
    }
}

/// Bit 54 is XN where there is one privilege; AP\[1\], bit 53 and nG say nothing (EL3 has NSE there).
#[test]
fn one_privilege_has_its_own_words() {
    let naming = Naming { has_one_privilege: true, ..NAMING };
    let line = |bits: u64| dump(naming, &[], &[(0, Level::L1, bits)], 1 << 30);
    let words = |bits: u64| line(bits).get(54..).map(std::borrow::ToOwned::to_owned).unwrap_or_default();
    assert_eq!(words(0x0040_0000_0000_0741), "       RW NX SHD AF        BLK        MEM/NORMAL\n");
    assert_eq!(words(0x0020_0000_0000_0fc1), "       ro x  SHD AF        BLK        MEM/NORMAL\n");
    for other in [1 << 6, 1 << 11, 1 << 53] {
        assert_eq!(line(0x0040_0000_0000_0701 | other), line(0x0040_0000_0000_0701), "{other:#x}");
    }
    let mut by_registers = Ptdump::new(String::new(), naming, &[]);
    let permissions = Permissions { privileged: Rights::READ | Rights::EXECUTE, unprivileged: Rights::empty() };
    let leaf = Descriptor::new(0x0060_0000_0000_0f41);
    by_registers.entry_that(Permitted::ByRegisters(permissions), 0, Level::L1, leaf).unwrap();
    assert_eq!(
        by_registers.finish(1 << 30).unwrap().get(54..),
        Some("       ro x  SHD AF        BLK        MEM/NORMAL\n")
    );
}

#[test]
fn lpa2_takes_shareability_from_the_register() {
    let naming = Naming { layout: Layout::Lpa2, start: Level::MINUS_1, ..NAMING };
    let bits = TAGGED & !0x300 | 0b11;
    let text = dump(naming, &[], &[(BASE, Level::L3, bits), (BASE + 0x1000, Level::L3, bits | 0x100)], BASE + 0x2000);
    assert_eq!(
        text,
        "0xffff000000000000-0xffff000000002000           8K PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED\n"
    );
}

#[test]
fn levels_are_named_from_the_root() {
    let names =
        |start| Level::ALL.into_iter().filter(move |level| *level >= start).map(move |level| level_name(level, start));
    assert!(names(Level::MINUS_1).eq(["PGD", "P4D", "PUD", "PMD", "PTE"]));
    assert!(names(Level::L0).eq(["PGD", "PUD", "PMD", "PTE"]));
    assert!(names(Level::L1).eq(["PGD", "PMD", "PTE"]));
    assert!(names(Level::L2).eq(["PGD", "PTE"]));
}

#[test]
fn sizes_use_the_largest_whole_unit() {
    let table = [
        (4 << 10, (4, 'K')),
        (1984 << 10, (1984, 'K')),
        (960 << 20, (960, 'M')),
        (130_560 << 30, (130_560, 'G')),
        (1 << 63, (8, 'E')),
    ];
    for (bytes, expected) in table {
        assert_eq!(scale(bytes), expected);
    }
    assert_eq!(scale(0), (0, 'K'));
}

/// Words for what registers permit: what bits could say is said as bits would, and merged; the rest is told behind.
#[test]
fn words_are_for_what_registers_permit() {
    use crate::{Indirection, PermissionControl, TableAttributes};
    let control = PermissionControl { indirection: Indirection::LINUX, ..Default::default() };
    let leaf = |index: u8, bits: u64| Descriptor::new(crate::with_permission_index(index) | bits | 0x703);
    let clean = 1 << 7;
    let entries = [
        leaf(14, 0),
        leaf(14, 0x1000),
        leaf(12, 0x2000),
        leaf(12, clean),
        leaf(5, 0),
        leaf(4, 0),
        leaf(11, 0),
        leaf(0, 0),
    ];
    let mut known = Ptdump::new(String::new(), NAMING, &[]);
    let mut unknown = Ptdump::new(String::new(), NAMING, &[]);
    for (page, descriptor) in (0..).zip(entries) {
        let permissions = control.stage1(descriptor, TableAttributes::empty()).unwrap();
        let address = BASE + (page << 12);
        known.entry_that(Permitted::ByRegisters(permissions), address, Level::L3, descriptor).unwrap();
        unknown.entry_that(Permitted::Unknown, address, Level::L3, descriptor).unwrap();
    }
    known.entry_that(Permitted::Unknown, BASE + 0x8000, Level::L3, Descriptor::INVALID).unwrap();
    let text = known.finish(BASE + 0x9000).unwrap();
    assert_eq!(
        text,
        "0xffff000000000000-0xffff000000002000           8K PTE       RW NX SHD AF            UXN    MEM/NORMAL
0xffff000000002000-0xffff000000004000           8K PTE       ro NX SHD AF            UXN    MEM/NORMAL
0xffff000000004000-0xffff000000005000           4K PTE   USR ro NX SHD AF                   MEM/NORMAL
0xffff000000005000-0xffff000000006000           4K PTE       ro NX SHD AF                   MEM/NORMAL privileged ---, EL0 --x
0xffff000000006000-0xffff000000007000           4K PTE   USR ro NX SHD AF            UXN    MEM/NORMAL privileged ---, EL0 r--s
0xffff000000007000-0xffff000000008000           4K PTE       ro NX SHD AF            UXN    MEM/NORMAL privileged ---, EL0 ---
0xffff000000008000-0xffff000000009000           4K PTE
"
    );
    let text = unknown.finish(BASE + 0x8000).unwrap();
    let first = "0xffff000000000000-0xffff000000002000           8K PTE   ?   ?  ?  SHD AF            ?      MEM/NORMAL PIIndex 14\n";
    assert!(text.starts_with(first) && text.lines().count() == 6, "{text}");
}
