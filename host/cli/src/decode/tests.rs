//! Decodings, word for word.

use expect_test::{Expect, expect};
use vmsa::{Level, PageSize};

use super::*;
use crate::args::StageChoice;

fn check(what: &str, values: &[&str], expected: Expect) {
    let encoding = EncodingArguments {
        level: Level::L3,
        granule: PageSize::Size4K,
        wide: false,
        stage: StageChoice::One,
        mair: None,
    };
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    let text = decode(what, &values, &encoding).unwrap_or_else(|Failure(line)| line);
    expected.assert_eq(&text);
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
              EL1 reads, writes; EL0 nothing; memory MEM/NORMAL
              as text:       RW NX SHD AF            UXN    MEM/NORMAL
        "#]],
    );
}

#[test]
fn a_table() {
    let encoding = EncodingArguments {
        level: Level::L1,
        granule: PageSize::Size4K,
        wide: false,
        stage: StageChoice::One,
        mair: None,
    };
    let text = decode("descriptor", &["0x1800000041003003".to_owned()], &encoding).unwrap_or_else(|Failure(line)| line);
    expect![[r#"
        0x1800000041003003 at level 1, 4K granule, Bits48: table of level 2 at 0x41003000 (DDI 0487, D8.3.1)
          NSTable   [63]     0x0  no: all below is Non-secure
          APTable   [62:61]  0x0  limits below: none
          UXNTable  [60]     0x1  yes: EL0 may not execute anything below
          PXNTable  [59]     0x1  yes: EL1 may not execute anything below
          AF        [10]     0x0  no: accessed (FEAT_HAFT)
          Type      [1:0]    0x3  type: table
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_data_abort() {
    check(
        "esr",
        &["0x96000044"],
        expect![[r#"
            ESR = 0x0000000096000044: data abort, translation fault, level 0, on a write (DDI 0487, D23.2, ESR_EL1)
              ISS2     [55:32]  0x0   more of the syndrome
              EC       [31:26]  0x25  data abort
              IL       [25]     0x1   32-bit instruction
              ISS      [24:0]   0x44  by class, as follows
              ISV      [24]     0x0   no: the next fields describe the access
              SAS      [23:22]  0x0   1 bytes
              SSE      [21]     0x0   no: sign-extended
              SRT      [20:16]  0x0   register 0
              SF       [15]     0x0   no: 64-bit register
              AR       [14]     0x0   no: acquire or release
              VNCR     [13]     0x0   no: through VNCR_EL2
              LST/SET  [12:11]  0x0   kind of load or store, or of error: 0
              FnV      [10]     0x0   no: FAR does not hold the address
              EA       [9]      0x0   no: external abort type 1
              CM       [8]      0x0   no: cache maintenance or address translation
              S1PTW    [7]      0x0   no: fault of stage 2 on a stage-1 walk
              WnR      [6]      0x1   write
              DFSC     [5:0]    0x4   translation fault, level 0
        "#]],
    );
}

#[test]
fn a_trapped_tlbi() {
    check(
        "esr",
        &["0x62122006"],
        expect![[r#"
            ESR = 0x0000000062122006: trapped system instruction (DDI 0487, D23.2, ESR_EL1)
              ISS2       [55:32]  0x0       more of the syndrome
              EC         [31:26]  0x18      trapped system instruction
              IL         [25]     0x1       32-bit instruction
              ISS        [24:0]   0x122006  by class, as follows
              Op0        [21:20]  0x1       1
              Op2        [19:17]  0x1       1
              Op1        [16:14]  0x0       0
              CRn        [13:10]  0x8       8
              Rt         [9:5]    0x0       x0
              CRm        [4:1]    0x3       3
              Direction  [0]      0x0       write (MSR or SYS)
              the instruction is tlbi vae1is
        "#]],
    );
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
          all levels, one ASID; every PE of the inner shareable domain
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
          last level, one ASID, by range; every PE of the inner shareable domain
          ASID      [63:48]  0x3      3
          TG        [47:46]  0x2      16K
          SCALE     [45:44]  0x3      3
          NUM       [43:39]  0x1      131072 pages
          TTL       [38:37]  0x2      leaves of level 2
          BaseADDR  [36:0]   0x10000  0x40000000 (with LPA2 0x100000000)
    "#]],
    );
    check(
        "tlbi",
        &["vmalls12e1is"],
        expect![[r#"
        tlbi vmalls12e1is (sys #4, c8, c3, #6; DDI 0487, C5.5)
          everything of both stages, current VMID; every PE of the inner shareable domain
    "#]],
    );
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
              NSE   [11]     0x1      yes: with NS, the physical address space (FEAT_RME)
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
              RES1_11  [11]   0x1  yes: reserved, one
              S        [9]    0x0  no: the fault was at stage 2
              PTW      [8]    0x0  no: the fault was at stage 2, on a stage-1 walk
              FST      [6:1]  0x7  fault status, as DFSC of a data abort: 7
              F        [0]    0x1  yes: the translation failed
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
            "nothing known of `ttbr9`: expected descriptor, esr, tlbi, tcr_el1, tcr_el2, vtcr_el2, ttbr0_el1, ttbr1_el1, vttbr_el2, mair_el1, sctlr_el1, hcr_el2, par_el1, midr_el1, id_aa64pfr0_el1, id_aa64isar0_el1, id_aa64mmfr0_el1, id_aa64mmfr1_el1, id_aa64mmfr2_el1, id_aa64mmfr3_el1"
        ],
    );
    check("tcr", &["x"], expect!["`x` is no 64-bit number (0x… or decimal)"]);
    check("tlbi", &[], expect!["decode tlbi takes an operation and its operand: decode tlbi vae1is 0x…"]);
}
