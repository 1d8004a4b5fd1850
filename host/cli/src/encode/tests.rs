//! What is encoded, and that it decodes to what was asked.

use super::*;
use crate::args::Regime;
use crate::permissions::PermissionArguments;

fn encoding(level: i8, granule: PageSize, wide: bool) -> EncodingArguments {
    EncodingArguments {
        level: Level::new(level).expect("a level"),
        granule,
        wide,
        regime: Regime::El1,
        mair: None,
        fwb: false,
        permissions: PermissionArguments::NONE,
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn of(what: &str, fields: &str) -> Result<u64, String> {
    encode(what, &words(fields), &encoding(3, PageSize::Size4K, false)).map_err(|Failure(line)| line)
}

#[test]
fn registers_encode_by_number_and_by_name() {
    assert_eq!(of("mair", "attr0=normal attr1=tagged attr2=nc attr4=nGnRE"), Ok(0x0000_0004_0044_f0ff));
    let tcr = "t0sz=16 t1sz=16 tg0=4K tg1=4K ips=5 as=1 sh0=3 orgn0=1 irgn0=1 sh1=3 orgn1=1 irgn1=1";
    assert_eq!(of("tcr_el1", tcr), Ok(0x0000_0015_b510_3510));
    assert_eq!(of("ttbr1", "asid=0x42 baddr=0x21800000 cnp"), Ok(0x0042_0000_4300_0001));
    assert_eq!(of("ttbr1", "asid=0x42 root=0x43000000 cnp"), Ok(0x0042_0000_4300_0001));
    let wide = encode("vttbr_el2", &words("vmid=0x42 root=0xa123456780000"), &encoding(3, PageSize::Size64K, true));
    assert_eq!(wide.ok(), Some(0x0042_1234_5678_0028));
}

#[test]
fn descriptors_name_their_permissions() {
    let linux = PermissionArguments { pir: Some(vmsa::Indirection::LINUX), ..PermissionArguments::NONE };
    let indirect = EncodingArguments { permissions: linux, ..encoding(3, PageSize::Size4K, false) };
    let of_stage = |stage, fields| {
        let stage2 = PermissionArguments { s2pir: Some(0), ..PermissionArguments::NONE };
        let permissions = if stage == Regime::El1 { linux } else { stage2 };
        let encoding = EncodingArguments { regime: stage, permissions, ..indirect };
        encode("descriptor", &words(fields), &encoding).map_err(|Failure(line)| line)
    };
    let page = "to=0x44000000 piindex=14 poindex=5 ndirty af sh=3";
    assert_eq!(of_stage(Regime::El1, page), Ok(0x5068_0000_4400_0783));
    let page = "to=0x44000000 piindex=1 poindex=15 dirty af";
    assert_eq!(of_stage(Regime::Stage2, page), Ok(0x7800_0000_4400_04c3));
    assert_eq!(of_stage(Regime::El1, "to=0 piindex=16"), Err("PIIndex 0x10 has more than 4 bits".to_owned()));
    let without = of("descriptor", "to=0 piindex=1").expect_err("no such field");
    assert!(without.starts_with("stage-1 leaf has no field `piindex`"), "{without}");
}

#[test]
fn descriptors_encode_as_the_engine_does() {
    let page = "to=0x44000000 pxn uxn af sh=3";
    assert_eq!(of("descriptor", page), Ok(0x0060_0000_4400_0703));
    assert_eq!(
        encode("descriptor", &words("next=0x41000000"), &encoding(0, PageSize::Size4K, false)).ok(),
        Some(0x4100_0003)
    );
    let wide = encode("descriptor", &words("to=0xe123400004000 af"), &encoding(3, PageSize::Size4K, true));
    assert_eq!(wide.ok(), Some(0x0002_1234_0000_4703));
}

#[test]
fn operands_encode() {
    assert_eq!(of("tlbi", "vae1is asid=3 va=0xffff800012340000"), Ok(0x0003_0ff8_0001_2340));
    assert_eq!(of("tlbi", "vae1is va=0x1000 ttl"), Ok(0x0000_7000_0000_0001));
    assert_eq!(of("tlbi", "vmalle1is"), Ok(0));
}

#[test]
fn mistakes_say_what_was_expected() {
    let table = [
        ("tcr", "t2sz=1", "no field `t2sz`"),
        ("tcr", "t0sz=64", "does not fit"),
        ("tcr", "tg0=8K", "expected 0 (4K)"),
        ("descriptor", "af", "to=ADDRESS"),
        ("descriptor", "to=0x800", "not a multiple"),
        ("descriptor", "to=0x10000000000000", "more than 48 bits"),
        ("descriptor", "next=0x1000", "level 3 has no tables"),
        ("tlbi", "vae9", "no TLBI"),
        ("tlbi", "vae1 vmid=1", "no field `vmid`: expected asid, va, ttl"),
        ("tlbi", "vmalle1is va=0x1000", "it has no operand"),
        ("tlbi", "vaae1 asid=1 va=0x1000", "no field `asid`"),
        ("tlbi", "vae1 asid=0x10000", "more than 16 bits"),
        ("tlbi", "rvae1is va=0x1000", "pages=N"),
        ("tlbi", "rvae1is va=0x1000 pages=1", "two pages or more"),
        ("tlbi", "rvae1is va=0x1000 pages=65", "encode 64, then the rest from 0x41000"),
        ("tlbi", "rvae1is va=0x1001 pages=2", "not a multiple of 0x1000"),
        ("ttbr0", "root=0x43000020", "not a multiple of 0x40"),
        ("ttbr0", "root=0xa123456780000", "more than 48 bits"),
        ("nonsense", "", "nothing known"),
    ];
    for (what, fields, expected) in table {
        let line = of(what, fields).expect_err("a mistake");
        assert!(line.contains(expected), "{what} {fields}: {line}");
    }
}

/// Every operation, granule and layout, at addresses of both halves: what is encoded decodes to what was asked.
#[test]
fn every_operand_decodes_to_what_was_asked() {
    use PageSize::{Size4K, Size16K, Size64K};
    use vmsa::maintenance::TlbiName;
    let operations = TlbiName::ALL.iter().map(|name| TlbiOp::new(*name)).filter(|op| op.takes_operand());
    let operations: Vec<String> = operations.map(|op| op.to_string()).collect();
    assert_eq!(operations.len(), 51);
    for name in &operations {
        for (granule, wide) in
            [(Size4K, false), (Size16K, false), (Size64K, false), (Size4K, true), (Size16K, true), (Size64K, true)]
        {
            for level in [2, 3] {
                let encoding = encoding(level, granule, wide);
                for address in [0u64, 0x4000_0000, 0xffff_4000_0000, 0xffff_0000_6000_0000] {
                    round_trip(name, address, &encoding);
                }
            }
        }
    }
}

fn round_trip(name: &str, address: u64, encoding: &EncodingArguments) {
    let is_intermediate = name.contains("ipas2");
    if is_intermediate && address >> 48 != 0 {
        return;
    }
    let (place, range) = (if is_intermediate { "ipa" } else { "va" }, name.starts_with('r'));
    let has_asid = !is_intermediate && !name.contains("vaa");
    let mut fields = format!("{name} ");
    if has_asid {
        fields += "asid=0x1234 ";
    }
    if !name.starts_with("asid") {
        fields += &format!("{place}={address:#x} ttl ");
    }
    if range {
        fields += "pages=1536";
    }
    let word = encode("tlbi", &words(&fields), encoding).unwrap_or_else(|Failure(line)| panic!("{fields}: {line}"));
    let text = crate::decode::decode("tlbi", &[name.to_owned(), format!("{word:#x}")], encoding, None)
        .map(|words| words.to_string())
        .unwrap_or_else(|Failure(line)| panic!("{fields}: {line}"));
    let says = |what: &str| assert!(text.contains(what), "{fields} is {word:#x}, which lacks {what}: {text}");
    if has_asid {
        says("0x1234");
    }
    if name.starts_with("asid") {
        return;
    }
    says(&format!("level {}", encoding.level.number()));
    let last = address.wrapping_add((1536 << encoding.granule.shift()) - 1);
    says(&if range { format!("{address:#x} to {last:#x}") } else { format!(" {address:#x}") });
}

/// Every register × field × value that fits: what encodes alone decodes to the same.
#[test]
fn every_field_round_trips() {
    for register in Register::ALL {
        for field in register.fields {
            for value in [0, 1, field.largest()] {
                let word = assign(register, 0, &format!("{}={value:#x}", field.name)).expect("a field");
                assert_eq!(field.get(word), value, "{} {}", register.name, field.name);
                assert_eq!(register.unnamed(word), 0);
            }
        }
    }
}
