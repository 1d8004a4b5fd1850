//! Descriptors in the words of their regime, and what no regime has.

use expect_test::expect_file;

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
    expect_file!["regimes.txt"].assert_eq(&text);
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
