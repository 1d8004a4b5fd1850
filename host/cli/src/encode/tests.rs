//! What is encoded, and that it decodes to what was asked.

use super::*;

fn encoding(level: i8, granule: vmsa::PageSize, wide: bool) -> EncodingArguments {
    EncodingArguments { level: Level::new(level).expect("a level"), granule, wide, stage: StageChoice::One, mair: None }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn of(what: &str, fields: &str) -> Result<u64, String> {
    encode(what, &words(fields), &encoding(3, vmsa::PageSize::Size4K, false)).map_err(|Failure(line)| line)
}

#[test]
fn registers_encode_by_number_and_by_name() {
    assert_eq!(of("mair", "attr0=normal attr1=tagged attr2=nc attr4=nGnRE"), Ok(0x0000_0004_0044_f0ff));
    let tcr = "t0sz=16 t1sz=16 tg0=4K tg1=4K ips=5 as=1 sh0=3 orgn0=1 irgn0=1 sh1=3 orgn1=1 irgn1=1";
    assert_eq!(of("tcr_el1", tcr), Ok(0x0000_0015_b510_3510));
    assert_eq!(of("ttbr1", "asid=0x42 baddr=0x21800000 cnp"), Ok(0x0042_0000_4300_0001));
}

#[test]
fn descriptors_encode_as_the_engine_does() {
    let page = "to=0x44000000 pxn uxn af sh=3";
    assert_eq!(of("descriptor", page), Ok(0x0060_0000_4400_0703));
    assert_eq!(
        encode("descriptor", &words("next=0x41000000"), &encoding(0, vmsa::PageSize::Size4K, false)).ok(),
        Some(0x4100_0003)
    );
    let wide = encode("descriptor", &words("to=0xe123400004000 af"), &encoding(3, vmsa::PageSize::Size4K, true));
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
        ("tlbi", "vae1 vmid=1", "none of asid"),
        ("nonsense", "", "nothing known"),
    ];
    for (what, fields, expected) in table {
        let line = of(what, fields).expect_err("a mistake");
        assert!(line.contains(expected), "{what} {fields}: {line}");
    }
}

/// Every register × field × value that fits: what encodes alone decodes to the same.
#[test]
fn every_field_round_trips() {
    for register in Register::ALL {
        for field in register.fields {
            for value in [0, 1, field.largest()] {
                let word = assign(register, 0, &format!("{}={value}", field.name)).expect("a field");
                assert_eq!(field.get(word), value, "{} {}", register.name, field.name);
                assert_eq!(register.unnamed(word), 0);
            }
        }
    }
}
