//! Descriptors in the words of their regime, and what no regime has.

use expect_test::expect;

use super::*;

fn of(regime: Regime, level: Level) -> EncodingArguments {
    EncodingArguments { regime, level, ..PLAIN }
}

#[test]
fn each_regime_has_its_own_words() {
    let rows = [
        ("0xc05", of(Regime::El3, Level::L1)),
        ("0x40000000000745", of(Regime::El2, Level::L1)),
        ("0x0060000040000f43", of(Regime::Host, Level::L3)),
        ("0x00600000400007e3", of(Regime::Secure, Level::L3)),
        ("0xd000000041003003", of(Regime::El2, Level::L1)),
        ("0x07a0000040000fff", of(Regime::Stage2, Level::L3)),
    ];
    let text: String =
        rows.iter().map(|(value, encoding)| text_of("descriptor", &[(*value).to_owned()], encoding)).collect();
    expect![[r#"
        0x0000000000000c05 at level 1, 4K granule, Bits48: 1G block to 0x0 (DDI 0487, D8.3.1)
          PBHA        [62:59]  0x0  page-based hardware attributes (FEAT_HPDS2): 0
          Software    [58:55]  0x0  left to software: 0
          XN          [54]     0x0  no: may not execute
          Contiguous  [52]     0x0  no: one of a contiguous group
          DBM         [51]     0x0  no: hardware may make it writable on a write (FEAT_HAFDBS)
          GP          [50]     0x0  no: guarded: indirect branches must land on BTI (FEAT_BTI)
          nT          [16]     0x0  no: blocks: do not cache the translation (FEAT_BBM)
          NSE         [11]     0x1  yes: at EL3 with FEAT_RME: with NS, the space it leads to; elsewhere reserved
          AF          [10]     0x1  yes: accessed
          SH          [9:8]    0x0  shareability: non-shareable
          AP          [7:6]    0x0  data accesses: read-write, and AP[1] is reserved as one
          NS          [5]      0x0  no: leads to the Non-secure space
          AttrIndx    [4:2]    0x1  memory type, by MAIR: 1
          Type        [1:0]    0x1  type: block
          Root space
          EL3 reads, writes, executes; memory MEM/NORMAL-TAGGED
          as text:       RW x      AF        BLK        MEM/NORMAL-TAGGED
        0x0040000000000745 at level 1, 4K granule, Bits48: 1G block to 0x0 (DDI 0487, D8.3.1)
          PBHA        [62:59]  0x0  page-based hardware attributes (FEAT_HPDS2): 0
          Software    [58:55]  0x0  left to software: 0
          XN          [54]     0x1  yes: may not execute
          Contiguous  [52]     0x0  no: one of a contiguous group
          DBM         [51]     0x0  no: hardware may make it writable on a write (FEAT_HAFDBS)
          GP          [50]     0x0  no: guarded: indirect branches must land on BTI (FEAT_BTI)
          nT          [16]     0x0  no: blocks: do not cache the translation (FEAT_BBM)
          NSE         [11]     0x0  no: at EL3 with FEAT_RME: with NS, the space it leads to; elsewhere reserved
          AF          [10]     0x1  yes: accessed
          SH          [9:8]    0x3  shareability: inner shareable
          AP          [7:6]    0x1  data accesses: read-write
          NS          [5]      0x0  no: leads to the Non-secure space
          AttrIndx    [4:2]    0x1  memory type, by MAIR: 1
          Type        [1:0]    0x1  type: block
          EL2 reads, writes; memory MEM/NORMAL-TAGGED
          as text:       RW NX SHD AF        BLK        MEM/NORMAL-TAGGED
        0x0060000040000f43 at level 3, 4K granule, Bits48: 4K page to 0x40000000 (DDI 0487, D8.3.1)
          PBHA        [62:59]  0x0  page-based hardware attributes (FEAT_HPDS2): 0
          Software    [58:55]  0x0  left to software: 0
          UXN         [54]     0x1  yes: EL0 may not execute (XN where there is one privilege level)
          PXN         [53]     0x1  yes: EL2 may not execute
          Contiguous  [52]     0x0  no: one of a contiguous group
          DBM         [51]     0x0  no: hardware may make it writable on a write (FEAT_HAFDBS)
          GP          [50]     0x0  no: guarded: indirect branches must land on BTI (FEAT_BTI)
          nG          [11]     0x1  who it belongs to: one ASID
          AF          [10]     0x1  yes: accessed
          SH          [9:8]    0x3  shareability: inner shareable
          AP          [7:6]    0x1  data accesses: EL2 and EL0 read-write
          NS          [5]      0x0  no: leads to the Non-secure space
          AttrIndx    [4:2]    0x0  memory type, by MAIR: 0
          Type        [1:0]    0x3  type: page
          EL2 reads, writes; EL0 reads, writes; memory MEM/NORMAL
          as text:   USR RW NX SHD AF NG         UXN    MEM/NORMAL
        0x00600000400007e3 at level 3, 4K granule, Bits48: 4K page to 0x40000000 (DDI 0487, D8.3.1)
          PBHA        [62:59]  0x0  page-based hardware attributes (FEAT_HPDS2): 0
          Software    [58:55]  0x0  left to software: 0
          UXN         [54]     0x1  yes: EL0 may not execute (XN where there is one privilege level)
          PXN         [53]     0x1  yes: EL1 may not execute
          Contiguous  [52]     0x0  no: one of a contiguous group
          DBM         [51]     0x0  no: hardware may make it writable on a write (FEAT_HAFDBS)
          GP          [50]     0x0  no: guarded: indirect branches must land on BTI (FEAT_BTI)
          nG          [11]     0x0  who it belongs to: every ASID
          AF          [10]     0x1  yes: accessed
          SH          [9:8]    0x3  shareability: inner shareable
          AP          [7:6]    0x3  data accesses: EL1 and EL0 read-only
          NS          [5]      0x1  yes: leads to the Non-secure space
          AttrIndx    [4:2]    0x0  memory type, by MAIR: 0
          Type        [1:0]    0x3  type: page
          Non-secure space
          EL1 reads; EL0 reads; memory MEM/NORMAL
          as text:   USR ro NX SHD AF            UXN    MEM/NORMAL
        0xd000000041003003 at level 1, 4K granule, Bits48: table of level 2 at 0x41003000 (DDI 0487, D8.3.1)
          NSTable  [63]   0x1  yes: all below is Non-secure
          APTable  [62]   0x1  yes: nothing below may be written
          XNTable  [60]   0x1  yes: nothing below may be executed
          AF       [10]   0x0  no: accessed (FEAT_HAFT)
          Type     [1:0]  0x3  type: table
        0x07a0000040000fff at level 3, 4K granule, Bits48: 4K page to 0x40000000 (DDI 0487, D8.3.2)
          PBHA        [62:59]  0x0  page-based hardware attributes (FEAT_HPDS2): 0
          Software    [58:55]  0xf  left to software: 15
          XN          [54:53]  0x1  execution (with FEAT_XNX): EL0 alone
          Contiguous  [52]     0x0  no: one of a contiguous group
          DBM         [51]     0x0  no: hardware may make it writable on a write (FEAT_HAFDBS)
          FnXS        [11]     0x1  yes: accesses do not have the XS attribute (FEAT_XS)
          AF          [10]     0x1  yes: accessed
          SH          [9:8]    0x3  shareability: inner shareable
          S2AP        [7:6]    0x3  data accesses: read-write
          MemAttr     [5:2]    0xf  memory type, by HCR_EL2.FWB: 15
          Type        [1:0]    0x3  type: page
          EL1 reads, writes; EL0 reads, writes, executes; memory MEM/NORMAL (no FWB)
    "#]]
    .assert_eq(&text);
}

/// NSE and NS name one of four spaces at EL3, NS alone one of two in Secure state; nowhere else is one named.
#[test]
fn spaces_by_regime() {
    for (bits, el3, secure) in [
        (0, "Secure", "Secure"),
        (1 << 5, "Non-secure", "Non-secure"),
        (1 << 11, "Root", "Secure"),
        (1 << 11 | 1 << 5, "Realm", "Non-secure"),
    ] {
        let text = |regime| text_of("descriptor", &[format!("{:#x}", 0x703_u64 | bits)], &of(regime, Level::L3));
        assert!(text(Regime::El3).contains(&format!("\n  {el3} space\n")), "{bits:#x}");
        assert!(text(Regime::Secure).contains(&format!("\n  {secure} space\n")), "{bits:#x}");
        for other in [Regime::El1, Regime::El2, Regime::Host, Regime::Stage2] {
            let names = |line: &str| line.ends_with(" space") && !line.contains('[');
            assert!(!text(other).lines().any(names), "{bits:#x} {other:?}");
        }
    }
}

/// Nothing is said of a field that no walk reads: by granule, layout, level and type.
#[test]
fn what_is_reserved_or_invalid_has_no_fields() {
    for granule in PageSize::ALL {
        for wide in [false, true] {
            for level in Level::ALL {
                for regime in [Regime::El1, Regime::El2, Regime::El3, Regime::Stage2] {
                    for kind in 0..4_u64 {
                        let encoding = EncodingArguments { granule, wide, ..of(regime, level) };
                        let text = text_of("descriptor", &[format!("{:#x}", 0x0060_0000_0000_0700 | kind)], &encoding);
                        if level < granule.highest_root(encoding.layout()) {
                            assert!(text.contains("pages have no level"), "{text}");
                            continue;
                        }
                        let is_leaf = granule.has_leaf(level, encoding.layout())
                            && kind == if level == Level::L3 { 3 } else { 1 };
                        let is_table = level != Level::L3 && kind == 3;
                        let has_fields = text.lines().count() > 2;
                        assert_eq!(
                            has_fields,
                            is_leaf || is_table,
                            "{granule} {wide} {level} {regime:?} {kind}: {text}"
                        );
                        let is_reserved = kind & 1 != 0 && !is_leaf && !is_table;
                        assert_eq!(text.contains(": reserved: "), is_reserved, "{text}");
                    }
                }
            }
        }
    }
    let text = |granule, wide, level| {
        let encoding = EncodingArguments { granule, wide, ..of(Regime::El1, level) };
        text_of("descriptor", &["0x60000000000701".to_owned()], &encoding)
    };
    assert!(text(PageSize::Size4K, false, Level::L0).contains("without LPA2 (TCR.DS = 1; --wide)"));
    assert!(text(PageSize::Size16K, false, Level::L1).contains("without LPA2 (TCR.DS = 1; --wide)"));
    assert!(text(PageSize::Size64K, false, Level::L1).contains("without 52-bit addresses"));
    assert!(!text(PageSize::Size16K, false, Level::L0).contains("without"));
}
