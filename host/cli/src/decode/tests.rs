//! Decodings, word for word.

use expect_test::{Expect, expect};
use vmsa::{Level, PageSize};

use super::*;
use crate::args::Regime;
use crate::permissions::PermissionArguments;

mod permissions;
mod printed;
mod regimes;
mod registers;
mod reports;
mod syndromes;

const PLAIN: EncodingArguments = EncodingArguments {
    level: Level::L3,
    granule: PageSize::Size4K,
    wide: false,
    regime: Regime::El1,
    mair: None,
    fwb: false,
    permissions: PermissionArguments::NONE,
};

fn check(what: &str, values: &[&str], expected: Expect) {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    expected.assert_eq(&text_of(what, &values, &PLAIN));
}

/// What is printed, or why nothing is.
fn text_of(what: &str, values: &[String], encoding: &EncodingArguments) -> String {
    decode(what, values, encoding, None).map_or_else(|Failure(line)| line, |words| words.to_string())
}

#[test]
fn a_clean_page() {
    check(
        "descriptor",
        &["0x68000044000703"],
        expect![[r#"
            0x0068000044000703 at level 3, 4K granule, Bits48: 4K page to 0x44000000 (DDI 0487, D8.3.1)
              PBHA        [62:59]  0x0  page-based hardware attributes (FEAT_HPDS2): 0
              Software    [58:55]  0x0  left to software: 0
              UXN         [54]     0x1  yes: EL0 may not execute (XN where there is one privilege level)
              PXN         [53]     0x1  yes: EL1 may not execute
              Contiguous  [52]     0x0  no: one of a contiguous group
              DBM         [51]     0x1  yes: hardware may make it writable on a write (FEAT_HAFDBS)
              GP          [50]     0x0  no: guarded: indirect branches must land on BTI (FEAT_BTI)
              nG          [11]     0x0  who it belongs to: every ASID
              AF          [10]     0x1  yes: accessed
              SH          [9:8]    0x3  shareability: inner shareable
              AP          [7:6]    0x0  data accesses: EL1 read-write
              NS          [5]      0x0  no: leads to the Non-secure space
              AttrIndx    [4:2]    0x0  memory type, by MAIR: 0
              Type        [1:0]    0x3  type: page
              read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
              EL1 reads, writes; EL0 nothing; memory MEM/NORMAL
              as text:       RW NX SHD AF            UXN    MEM/NORMAL
        "#]],
    );
}

#[test]
fn a_table() {
    let encoding = EncodingArguments { level: Level::L1, ..PLAIN };
    let text = text_of("descriptor", &["0x1800000041003003".to_owned()], &encoding);
    expect![[r#"
        0x1800000041003003 at level 1, 4K granule, Bits48: table of level 2 at 0x41003000 (DDI 0487, D8.3.1)
          NSTable   [63]     0x0  no: all below is Non-secure
          APTable   [62:61]  0x0  limits below: none
          UXNTable  [60]     0x1  yes: EL0 may not execute anything below
          PXNTable  [59]     0x1  yes: EL1 may not execute anything below
          AF        [10]     0x0  no: accessed (FEAT_HAFT)
          Type      [1:0]    0x3  type: table
          read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
    "#]]
    .assert_eq(&text);
}

/// Blocks and pages at other granules, layouts and levels; both stages; each bit that could be misread.
#[test]
fn leaves_of_every_shape() {
    let (small, wide) = (PLAIN, EncodingArguments { wide: true, ..PLAIN });
    let of = |level, granule| EncodingArguments { level, granule, ..PLAIN };
    let stage2 = EncodingArguments { regime: Regime::Stage2, level: Level::L2, ..PLAIN };
    let rows: [(u64, EncodingArguments); 10] = [
        (0x00e8_0000_4000_0f43, small),
        (0x0060_0000_4001_0711, EncodingArguments { level: Level::L2, ..PLAIN }),
        (0x0060_0000_4000_0701, of(Level::L0, PageSize::Size4K)),
        (0x0060_0000_4000_0701, of(Level::L1, PageSize::Size16K)),
        (0x0061_2340_0000_4703, wide),
        (0x0060_1234_0000_f703, EncodingArguments { granule: PageSize::Size64K, wide: true, ..PLAIN }),
        (0x0060_0000_4000_0701, small),
        (0x0040_0000_4000_07fd, stage2),
        (0x0020_0000_4000_07d9, EncodingArguments { fwb: true, ..stage2 }),
        (0x6000_0000_4100_3003, EncodingArguments { level: Level::L1, ..stage2 }),
    ];
    let text: String = rows
        .iter()
        .map(|(value, encoding)| {
            let text = text_of("descriptor", &[format!("{value:#x}")], encoding);
            let is_kept = |line: &&str| !line.contains("  [") || line.contains("MemAttr") || line.contains("AttrIndx");
            text.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect::<String>()
        })
        .collect();
    expect![[r#"
        0x00e8000040000f43 at level 3, 4K granule, Bits48: 4K page to 0x40000000 (DDI 0487, D8.3.1)
          AttrIndx    [4:2]    0x0  memory type, by MAIR: 0
          read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
          EL1 reads, writes; EL0 reads, writes; memory MEM/NORMAL
          as text:   USR RW NX SHD AF NG         UXN    MEM/NORMAL
        0x0060000040010711 at level 2, 4K granule, Bits48: 2M block to 0x40000000 (DDI 0487, D8.3.1)
          AttrIndx    [4:2]    0x4  memory type, by MAIR: 4
          read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
          EL1 reads, writes; EL0 nothing; memory DEVICE/nGnRE
          as text:       RW NX SHD AF        BLK UXN    DEVICE/nGnRE
        0x0060000040000701 at level 0, 4K granule, Bits48: reserved: 4K pages have no block at level 0 without LPA2 (TCR.DS = 1; --wide) (DDI 0487, D8.3.1)
        0x0060000040000701 at level 1, 16K granule, Bits48: reserved: 16K pages have no block at level 1 without LPA2 (TCR.DS = 1; --wide) (DDI 0487, D8.3.1)
        0x0061234000004703 at level 3, 4K granule, Lpa2: 4K page to 0xd234000004000 (DDI 0487, D8.3.1)
          AttrIndx    [4:2]    0x0  memory type, by MAIR: 0
          read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
          EL1 reads, writes; EL0 nothing; memory MEM/NORMAL
          as text:       RW NX SHD AF            UXN    MEM/NORMAL
        0x006012340000f703 at level 3, 64K granule, Lpa: 64K page to 0xf123400000000 (DDI 0487, D8.3.1)
          AttrIndx    [4:2]    0x0  memory type, by MAIR: 0
          read as one of EL1&0: --regime el2, el2&0, el3, stage2 or secure reads it otherwise
          EL1 reads, writes; EL0 nothing; memory MEM/NORMAL
          as text:       RW NX SHD AF            UXN    MEM/NORMAL
        0x0060000040000701 at level 3, 4K granule, Bits48: reserved: 4K pages have no block at level 3; a page has type 3 (DDI 0487, D8.3.1)
        0x00400000400007fd at level 2, 4K granule, Bits48: 2M block to 0x40000000 (DDI 0487, D8.3.2)
          MemAttr     [5:2]    0xf  memory type, by HCR_EL2.FWB: 15
          EL1 reads, writes; EL0 reads, writes; memory MEM/NORMAL (no FWB)
        0x00200000400007d9 at level 2, 4K granule, Bits48: 2M block to 0x40000000 (DDI 0487, D8.3.2)
          MemAttr     [5:2]    0x6  memory type, by HCR_EL2.FWB: 6
          EL1 reads, writes; EL0 reads, writes, executes; memory MEM/NORMAL (FWB)
        0x6000000041003003 at level 1, 4K granule, Bits48: table of level 2 at 0x41003000 (DDI 0487, D8.3.2)
    "#]].assert_eq(&text);
}

#[test]
fn memory_types() {
    check(
        "mair",
        &["0x0000000400bbf0ff"],
        expect![[r#"
            MAIR_EL1 = 0x0000000400bbf0ff (DDI 0487, D23.2, MAIR_EL1)
              Attr7  [63:56]  0x0   DEVICE/nGnRnE, Device-nGnRnE
              Attr6  [55:48]  0x0   DEVICE/nGnRnE, Device-nGnRnE
              Attr5  [47:40]  0x0   DEVICE/nGnRnE, Device-nGnRnE
              Attr4  [39:32]  0x4   DEVICE/nGnRE, Device-nGnRE
              Attr3  [31:24]  0x0   DEVICE/nGnRnE, Device-nGnRnE
              Attr2  [23:16]  0xbb  Normal write-through with read and write allocation
              Attr1  [15:8]   0xf0  MEM/NORMAL-TAGGED, Normal write-back, tagged (FEAT_MTE2)
              Attr0  [7:0]    0xff  MEM/NORMAL, Normal write-back with read and write allocation
        "#]],
    );
}

#[test]
fn a_root() {
    check(
        "ttbr1_el1",
        &["0x0042123456780029"],
        expect![[r#"
            TTBR1_EL1 = 0x0042123456780029 (DDI 0487, D23.2, TTBR1_EL1)
              ASID   [63:48]  0x42           address space: 66
              BADDR  [47:1]   0x91a2b3c0014  address of the root, from bit 1; with 52-bit addresses bits 5:2 are its bits 51:48
              CnP    [0]      0x1            yes: common, not private: shared by all PEs of the inner shareable domain (FEAT_TTCNP)
              root at 0x123456780028; with 52-bit addresses at 0xa123456780000
        "#]],
    );
}

#[test]
fn operations() {
    check(
        "tlbi",
        &["vae1is", "0x00037ff800012340"],
        expect![[r#"
            tlbi vae1is (sys #0, c8, c3, #1; DDI 0487, C5.5)
              EL1&0: all levels, one ASID; every PE of the inner shareable domain
              ASID  [63:48]  0x3            3
              TTL   [47:44]  0x7            4K leaves of level 3: any other leaf may stay
              VA    [43:0]   0xff800012340  0xffff800012340000
        "#]],
    );
    check(
        "tlbi",
        &["rvale1is", "0x0003_b0c0_0001_0000"],
        expect![[r#"
            tlbi rvale1is (sys #0, c8, c2, #5; DDI 0487, C5.5)
              EL1&0: last level, one ASID, by range; every PE of the inner shareable domain
              ASID      [63:48]  0x3      3
              TG        [47:46]  0x2      16K
              SCALE     [45:44]  0x3      units of 65536 pages
              NUM       [43:39]  0x1      2 units, 131072 pages
              TTL       [38:37]  0x2      leaves of level 2: others may stay
              BaseADDR  [36:0]   0x10000  0x40000000 to 0xbfffffff; with LPA2 0x100000000 to 0x17fffffff
        "#]],
    );
    check(
        "tlbi",
        &["vmalls12e1is"],
        expect![[r#"
            tlbi vmalls12e1is (sys #4, c8, c3, #6; DDI 0487, C5.5)
              EL1&0: everything of both stages, current VMID; every PE of the inner shareable domain
        "#]],
    );
}

/// LPA2 level 0, a hint that is reserved, a range of EL2 at 16K, and one of intermediate addresses.
#[test]
fn operands_of_every_kind() {
    let mut print = String::new();
    for (op, operand) in [
        ("vaae1is", "0xffff_4000_0000_0001"),
        ("vale2", "0x0000_8000_0000_0001"),
        ("rvae2is", "0x0000_8018_0000_0001"),
        ("ripas2e1is", "0x0000_401f_ffff_ffff"),
        ("ipas2le1is", "0x0000_7000_0000_0010"),
        ("alle2is", "0"),
    ] {
        let text = text_of("tlbi", &[op.to_owned(), operand.to_owned()], &PLAIN);
        print.push_str(&text);
    }
    expect![[r#"
        tlbi vaae1is (sys #0, c8, c3, #3; DDI 0487, C5.5)
          EL1&0: all levels, any ASID; every PE of the inner shareable domain
          ASID  [63:48]  0xffff  ignored: any ASID
          TTL   [47:44]  0x4     4K leaves of level 0: any other leaf may stay
          VA    [43:0]   0x1     0x1000
        tlbi vale2 (sys #4, c8, c7, #5; DDI 0487, C5.5)
          EL2: last level, one ASID if EL2 has them (E2H); this PE alone
          ASID  [63:48]  0x0  0
          TTL   [47:44]  0x8  reserved: as none
          VA    [43:0]   0x1  0x1000
        tlbi rvae2is (sys #4, c8, c2, #1; DDI 0487, C5.5)
          EL2: all levels, one ASID if EL2 has them (E2H), by range; every PE of the inner shareable domain
          ASID      [63:48]  0x0           0
          TG        [47:46]  0x2           16K
          SCALE     [45:44]  0x0           units of 2 pages
          NUM       [43:39]  0x0           1 units, 2 pages
          TTL       [38:37]  0x0           leaves of any level
          BaseADDR  [36:0]   0x1800000001  0xfffe000000004000 to 0xfffe00000000bfff; with LPA2 0xfff8000000010000 to 0xfff8000000017fff
        tlbi ripas2e1is (sys #4, c8, c0, #2; DDI 0487, C5.5)
          EL1&0: stage 2, all levels, by range; every PE of the inner shareable domain
          NS        [63]     0x0           the Secure intermediate space, in Secure state; else no matter
          TG        [47:46]  0x1           4K
          SCALE     [45:44]  0x0           units of 2 pages
          NUM       [43:39]  0x0           1 units, 2 pages
          TTL       [38:37]  0x0           leaves of any level
          BaseADDR  [36:0]   0x1fffffffff  0x1fffffffff000 to 0x2000000000fff; with LPA2 0x1fffffffff0000 to 0x1fffffffff1fff
        tlbi ipas2le1is (sys #4, c8, c0, #5; DDI 0487, C5.5)
          EL1&0: stage 2, last level; every PE of the inner shareable domain
          NS   [63]     0x0   the Secure intermediate space, in Secure state; else no matter
          TTL  [47:44]  0x7   4K leaves of level 3: any other leaf may stay
          IPA  [39:0]   0x10  0x10000
        tlbi alle2is (sys #4, c8, c3, #0; DDI 0487, C5.5)
          EL2: everything; every PE of the inner shareable domain
          its operand is ignored
    "#]].assert_eq(&print);
}

#[test]
fn a_cpu() {
    check(
        "midr",
        &["0x410fd840"],
        expect![[r#"
        MIDR_EL1 = 0x00000000410fd840 (DDI 0487, D23.2, MIDR_EL1)
          Implementer   [31:24]  0x41   who made it: Arm
          Variant       [23:20]  0x0    major revision, rN: 0
          Architecture  [19:16]  0xf    15: told by the ID registers: 15
          PartNum       [15:4]   0xd84  model: 3460
          Revision      [3:0]    0x0    minor revision, pN: 0
          Neoverse-V3 r0p0; is not known to tolerate leaves that change size while live, beyond what ID_AA64MMFR2_EL1.BBM says
          each TLBI and its DSB must be issued twice (CVE-2025-10263)
    "#]],
    );
}

#[test]
fn translations() {
    check(
        "par",
        &["0xff00000044000b80"],
        expect![[r#"
            PAR_EL1 = 0xff00000044000b80 (DDI 0487, D23.2, PAR_EL1, F = 0)
              ATTR  [63:56]  0xff     MEM/NORMAL, Normal write-back with read and write allocation
              PA    [51:12]  0x44000  output address, from bit 12
              NSE   [11]     0x1      yes: with NS, the physical address space (FEAT_RME); reserved as one without
              NS    [9]      0x1      yes: Non-secure
              SH    [8:7]    0x3      shareability: inner shareable
              F     [0]      0x0      no: the translation failed
              output address 0x44000000
        "#]],
    );
    check(
        "par",
        &["0x80f"],
        expect![[r#"
            PAR_EL1 = 0x000000000000080f (DDI 0487, D23.2, PAR_EL1, F = 1)
              DirtyBit     [15]   0x0  no: the dirty state refused the access (FEAT_S1PIE, FEAT_S2PIE)
              Overlay      [14]   0x0  no: an overlay refused the access (FEAT_S1POE, FEAT_S2POE)
              TopLevel     [13]   0x0  no: stage 2: TopLevel refused the access (FEAT_THE)
              AssuredOnly  [12]   0x0  no: stage 2: AssuredOnly refused the access (FEAT_THE)
              RES1_11      [11]   0x1  yes: reserved, one
              S            [9]    0x0  no: the fault was at stage 2
              PTW          [8]    0x0  no: the fault was at stage 2, on a stage-1 walk
              FST          [6:1]  0x7  fault status, as DFSC of a data abort: 7
              F            [0]    0x1  yes: the translation failed
              translation fault, level 3
        "#]],
    );
}

#[test]
fn what_is_unknown_is_one_line() {
    check(
        "ttbr9",
        &["1"],
        expect![
            "nothing known of `ttbr9`: expected descriptor, esr, tlbi, oops, pagemap, ptdump, tcr_el1, tcr2_el1, tcr_el2, tcr_el3, vtcr_el2, ttbr0_el1, ttbr1_el1, ttbr0_el3, vttbr_el2, mair_el1, pir_el1, pire0_el1, por_el0, por_el1, s2pir_el2, s2por_el1, sctlr_el1, sctlr_el2, sctlr_el3, hcr_el2, par_el1, far_el1, hpfar_el2, spsr_el1, midr_el1, ctr_el0, id_aa64pfr0_el1, id_aa64pfr1_el1, id_aa64pfr2_el1, id_aa64isar0_el1, id_aa64isar1_el1, id_aa64mmfr0_el1, id_aa64mmfr1_el1, id_aa64mmfr2_el1, id_aa64mmfr3_el1, id_aa64mmfr4_el1"
        ],
    );
    check("tcr", &["x"], expect![["`x` is no 64-bit number (hexadecimal, with or without 0x; 0d… is decimal)"]]);
    check("tlbi", &[], expect![["decode tlbi takes an operation and its operand: decode tlbi vae1is 0x…"]]);
}
