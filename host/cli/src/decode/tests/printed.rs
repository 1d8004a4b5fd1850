//! What Linux prints of memory, word for word.

use expect_test::expect;

use super::*;

fn text(what: &str, values: &[&str]) -> String {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    text_of(what, &values, &PLAIN)
}

#[test]
fn a_word_of_pagemap() {
    let all: String = [
        "a100000000123456",
        "0x8180000000000000",
        "4000000000000062",
        "0",
        "0x0400000000000000",
        "c000000000000000",
        "1000000000000000",
    ]
    .iter()
    .map(|value| {
        let text = text("pagemap", &[value]);
        text.lines().filter(|line| !line.contains("  no: ")).flat_map(|line| [line, "\n"]).collect::<String>()
    })
    .collect();
    expect![[r#"
        pagemap 0xa100000000123456
          present     [63]    0x1       yes: in memory
          file        [61]    0x1       yes: a page of a file, or of shared anonymous memory
          exclusive   [56]    0x1       yes: mapped once (4.2)
          PFN         [54:0]  0x123456  number of the page's frame
          physical address 0x123456000 (4K pages; 0x48d158000 16K, 0x1234560000 64K)
        pagemap 0x8180000000000000
          present     [63]    0x1  yes: in memory
          exclusive   [56]    0x1  yes: mapped once (4.2)
          soft-dirty  [55]    0x1  yes: written since clear_refs was told to forget
          PFN         [54:0]  0x0  number of the page's frame
          PFN is hidden: /proc/PID/pagemap shows it to CAP_SYS_ADMIN alone
        pagemap 0x4000000000000062
          swapped     [62]    0x1  yes: in swap, or kept for migration
          offset      [54:5]  0x3  where in the swap area
          type        [4:0]   0x2  swap area: 2
        pagemap 0x0000000000000000
          PFN         [54:0]  0x0  number of the page's frame
          no page: never touched, or given back
        pagemap 0x0400000000000000
          guard       [58]    0x1  yes: a guard region: an access ends in SIGSEGV (6.15)
          PFN         [54:0]  0x0  number of the page's frame
          no page: never touched, or given back
        pagemap 0xc000000000000000
          present     [63]    0x1  yes: in memory
          swapped     [62]    0x1  yes: in swap, or kept for migration
          offset      [54:5]  0x0  where in the swap area
          type        [4:0]   0x0  swap area: 0
          present and swapped at once: no word of pagemap
        pagemap 0x1000000000000000
          PFN         [54:0]  0x0  number of the page's frame
          no page: never touched, or given back
          bits that pagemap has as zero are set: 0x1000000000000000
    "#]]
    .assert_eq(&all);
}

#[test]
fn a_line_of_kernel_page_tables() {
    let lines = [
        "0xffff000000000000-0xffff000000200000           2M PMD       RW NX SHD AF        BLK UXN    MEM/NORMAL-TAGGED",
        "0xffff800008000000-0xffff800008001000 4K PTE RW x SHD MEM/NORMAL",
        "0x0000000000400000-0x0000000000410000 64K PTE USR ro NX SHD AF NG CON MEM/NORMAL",
        "0xffff000000400000-0xffff000004000000          60M PMD",
        "0xffff800000000000-0xffff800040000000 1G PUD ro NX SHD AF BLK DEVICE/nGnRE",
        "0xffff800000000000-0xffff800000001000 4K PTE F reserved",
    ];
    let all: String = lines.iter().map(|line| text("ptdump", &[line])).collect();
    expect![[r#"
        0xffff000000000000 to 0xffff0000001fffff: 2M in entries of level 2 (PMD)
          RW                 [7] = 0      AP[2]: may be written
          NX                 [53] = 1     PXN: EL1 may not execute
          SHD                [9:8] = 3    SH: inner shareable
          AF                 [10] = 1     accessed
          BLK                [1:0] = 1    a block
          UXN                [54] = 1     UXN: EL0 may not execute
          MEM/NORMAL-TAGGED  [4:2]        memory type, by MAIR
          EL1 reads, writes; EL0 nothing
        0xffff800008000000 to 0xffff800008000fff: 4K in entries of level 3 (PTE)
          RW          [7] = 0      AP[2]: may be written
          x           [53] = 0     PXN: EL1 may execute
          SHD         [9:8] = 3    SH: inner shareable
          MEM/NORMAL  [4:2]        memory type, by MAIR
          EL1 reads, writes, executes; EL0 executes
          writable and executable by EL1
          no UXN: EL0 executes what it cannot read
          no AF: the first access faults, unless hardware sets it (TCR.HA)
        0x400000 to 0x40ffff: 64K in entries of level 3 (PTE)
          USR         [6] = 1      AP[1]: EL0 accesses it as EL1 does
          ro          [7] = 1      AP[2]: may only be read
          NX          [53] = 1     PXN: EL1 may not execute
          SHD         [9:8] = 3    SH: inner shareable
          AF          [10] = 1     accessed
          NG          [11] = 1     nG: belongs to one ASID
          CON         [52] = 1     one of a contiguous group
          MEM/NORMAL  [4:2]        memory type, by MAIR
          EL1 reads; EL0 reads, executes
        0xffff000000400000 to 0xffff000003ffffff: 60M in entries of level 2 (PMD)
          nothing is mapped
        0xffff800000000000 to 0xffff80003fffffff: 1G in entries of level 1 (PUD)
          ro            [7] = 1      AP[2]: may only be read
          NX            [53] = 1     PXN: EL1 may not execute
          SHD           [9:8] = 3    SH: inner shareable
          AF            [10] = 1     accessed
          BLK           [1:0] = 1    a block
          DEVICE/nGnRE  [4:2]        memory type, by MAIR
          EL1 reads; EL0 executes
          no UXN: EL0 executes what it cannot read
          a device that may be executed: instructions may be fetched from it by speculation
        0xffff800000000000 to 0xffff800000000fff: 4K in entries of level 3 (PTE)
          F         [0] = 0    invalid: every access is a translation fault
          reserved             what the entry holds, which no walk reads
    "#]]
    .assert_eq(&all);
    for wrong in ["", "0x1000 4K PTE RW", "x-y 4K PTE RW", "0x0-0x1000 4K PXE RW", "---[ Linear Mapping start ]---"] {
        let line = text("ptdump", &[wrong]);
        assert_eq!(line.lines().count(), 1, "{wrong}: {line}");
    }
}
