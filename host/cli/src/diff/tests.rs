//! Differences between small dumps, as they are printed.

use expect_test::{Expect, expect};
use vmsa::PageSize;

use super::*;

const BEFORE: &str = "\
---[ Linear Mapping start ]---
0xffff000000000000-0xffff000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL
0xffff000000200000-0xffff000000210000          64K PTE       RW NX SHD AF    CON     UXN    MEM/NORMAL
0xffff000000210000-0xffff000000400000        1984K PTE       ro NX SHD AF            UXN    MEM/NORMAL
0xffff000000400000-0xffff000040000000        1020M PMD
0xffff000040000000-0xffff008000000000         511G PUD
0xffff008000000000-0x0000000000000000      261632G PGD
";

fn check(before: &str, after: &str, expected: Expect) {
    let parse = |text| parse(text, PageSize::Size4K).expect("a dump");
    let (before, after) = (parse(before), parse(after));
    let changes = compare(&before[0].regions, &after[0].regions);
    expected.assert_eq(&report(&(before[0].totals(), after[0].totals()), &changes, 100));
}

#[test]
fn the_same_dump_has_no_changes() {
    check(
        BEFORE,
        BEFORE,
        expect![[r#"
            no difference
                                before  after  change
              leaves            513     513    =
                4K              496     496    =
                4K, contiguous  16      16     =
                2M              1       1      =
              mapped            4M      4M     =
              tables            4       4      =
              bytes of tables   16K     16K    =
        "#]],
    );
}

#[test]
fn a_split_block_is_resized() {
    let after = BEFORE.replace(
        "0xffff000000000000-0xffff000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL",
        "0xffff000000000000-0xffff000000200000           2M PTE       RW NX SHD AF            UXN    MEM/NORMAL",
    );
    check(
        BEFORE,
        &after,
        expect![[r#"
        0xffff000000000000-0xffff000000200000        2M  resized
          -   2M RW NX SHD AF BLK UXN MEM/NORMAL
          +   4K RW NX SHD AF UXN MEM/NORMAL
                            before  after  change
          leaves            513     1024   +511
            4K              496     1008   +512
            4K, contiguous  16      16     =
            2M              1       0      -1
          mapped            4M      4M     =
          tables            4       5      +1
          bytes of tables   16K     20K    +4K
    "#]],
    );
}

#[test]
fn permissions_change_in_part_of_a_range() {
    let after = BEFORE.replace(
        "0xffff000000210000-0xffff000000400000        1984K PTE       ro",
        "0xffff000000210000-0xffff000000220000          64K PTE       RW NX SHD AF            UXN    MEM/NORMAL\n\
         0xffff000000220000-0xffff000000400000        1920K PTE       ro",
    );
    check(
        BEFORE,
        &after,
        expect![[r#"
        0xffff000000210000-0xffff000000220000       64K  changed
          -   4K ro NX SHD AF UXN MEM/NORMAL
          +   4K RW NX SHD AF UXN MEM/NORMAL
                            before  after  change
          leaves            513     513    =
            4K              496     496    =
            4K, contiguous  16      16     =
            2M              1       1      =
          mapped            4M      4M     =
          tables            4       4      =
          bytes of tables   16K     16K    =
    "#]],
    );
}

#[test]
fn a_mapping_goes() {
    let lines: Vec<&str> = BEFORE.lines().filter(|line| !line.contains("64K")).collect();
    check(
        BEFORE,
        &lines.join("\n"),
        expect![[r#"
        0xffff000000200000-0xffff000000210000       64K  unmapped
          -   4K RW NX SHD AF CON UXN MEM/NORMAL
                            before  after  change
          leaves            513     497    -16
            4K              496     496    =
            4K, contiguous  16      0      -16
            2M              1       1      =
          mapped            4M      4032K  -64K
          tables            4       4      =
          bytes of tables   16K     16K    =
    "#]],
    );
}

#[test]
fn tables_are_counted_from_lines() {
    let sections = parse(BEFORE, PageSize::Size4K).expect("a dump");
    let sums = sections[0].totals();
    assert_eq!((sums.tables, sums.table_bytes), (4, 4 * 4096), "one table of each level");
    assert_eq!(sums.leaves.values().sum::<u64>(), 1 + 16 + 496);
}

#[test]
fn what_is_no_dump_says_so() {
    for text in ["", "hello\n", "{\"kind\":\"root\"}\n", "{]", "0xfoo-0x1 4K PTE\n", "0x1000-0x2000 4K PTX RW\n"] {
        assert!(parse(text, PageSize::Size4K).is_err(), "{text:?}");
    }
    let twice = format!("{BEFORE}{BEFORE}");
    assert!(parse(&twice, PageSize::Size4K).is_err_and(|line| line.contains("line 9")), "ranges ascend");
}

/// Dumps with bytes changed, lines dropped and lines swapped: compared, or refused in one line.
#[test]
fn broken_dumps_are_compared_or_refused() {
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let whole = "0x0000000000000000-0x0000000000000000   16777216T PTE       RW NX SHD AF\n";
    let original = parse(BEFORE, PageSize::Size4K).expect("a dump");
    for turn in 0..5_000 {
        let mut lines: Vec<String> = BEFORE.lines().chain([whole]).map(str::to_owned).collect();
        for _ in 0..random(4) {
            let line = random(lines.len());
            let mut bytes = lines[line].clone().into_bytes();
            let at = random(bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = b"0123456789abcdefx- \t"[random(20)];
            }
            lines[line] = String::from_utf8(bytes).expect("text");
        }
        let (one, other) = (random(7), random(7));
        lines.swap(one, other);
        let gone = random(lines.len());
        lines.remove(gone);
        if let Ok(sections) = parse(&lines.join("\n"), PageSize::ALL[turn % 3]) {
            let changes = compare(&original[0].regions, &sections[0].regions);
            assert!(!report(&(original[0].totals(), sections[0].totals()), &changes, 3).is_empty());
        }
    }
}

/// A wrong granule would count leaves that are not there, or none.
#[test]
fn a_granule_that_cannot_be_is_refused_and_one_that_could_is_told() {
    let refused = parse(BEFORE, PageSize::Size64K).expect_err("blocks of 2M");
    assert!(refused.contains("line 2: 2M at 0xffff000000000000 are no leaves of 512M: give --granule 4k"), "{refused}");
    let other = |text: &str| other_granule(&parse(text, PageSize::Size4K).expect("a dump"));
    assert_eq!(other(BEFORE), None);
    let line = |end: &str, level: &str| format!("0xffff000000000000-0xffff0000{end} 0 {level} RW NX SHD AF\n");
    assert_eq!(other(&line("20010000", "PTE")), Some(PageSize::Size64K));
    assert_eq!(other(&line("00004000", "PTE")), Some(PageSize::Size16K));
    assert_eq!(other(&line("20001000", "PTE")), None);
    assert_eq!(other(&line("20000000", "PMD")), Some(PageSize::Size64K));
}

/// Five levels of 64K reach beyond 64 bits: a text that claims to have them is counted.
#[test]
fn levels_that_a_granule_does_not_have_are_no_overflow() {
    let leaf = "0xffff000000000000-0xffff000020000000         512M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL";
    let text = format!("{leaf}\n0xffff000020000000-0xffff040000000000        4095G P4D\n");
    let leaves = parse(&text, PageSize::Size64K).expect("a dump")[0].regions.len();
    assert_eq!(leaves, 1);
}
