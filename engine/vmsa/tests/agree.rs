//! What is decoded is encoded, and decoded to the same: registers and descriptors, by tables of fields and by the types that
//! code acts on. Values are random words, words of few bits, and words in which few are missing.

use seed::Seed;
use vellum_vmsa::fields::{self, Register};
use vellum_vmsa::registers::{
    El2Control, MemoryTypes, Stage2Control, TranslationControl, decode_ttbr, encode_ttbr, encode_vttbr,
};
use vellum_vmsa::{
    Descriptor, Layout, Level, Meaning, PageSize, PermissionControl, Stage1Attributes, Stage2Attributes,
    TableAttributes, permission_index, with_permission_index,
};

const SEED: u64 = 18;
const WORDS: usize = 20_000;

/// Words for a test, the same in each run.
fn words() -> impl Iterator<Item = u64> {
    let mut seed = Seed::new(SEED);
    let pairs = (0..64).flat_map(|one| (0..64).map(move |other| 1 << one | 1 << other));
    pairs.clone().chain(pairs.map(|bits: u64| !bits)).chain((0..WORDS).map(move |_| seed.bits()))
}

#[test]
fn a_register_is_the_sum_of_its_fields() {
    let formats = [
        fields::STAGE1_LEAF,
        fields::STAGE1_INDIRECT_LEAF,
        fields::STAGE1_TABLE,
        fields::STAGE2_LEAF,
        fields::STAGE2_INDIRECT_LEAF,
        fields::STAGE2_TABLE,
    ];
    for register in Register::ALL.into_iter().chain(formats.iter().map(|format| &format.register)) {
        for word in words() {
            let sum = register.fields.iter().map(|field| field.put(field.get(word))).sum::<u64>();
            assert_eq!(sum | register.unnamed(word), word, "{} {word:#x}", register.name);
            assert_eq!(sum & register.unnamed(word), 0, "{} {word:#x}", register.name);
        }
    }
}

/// What a control says of a word, word by word: the bits that it does not know are not kept, the others are.
fn controls_agree<C: PartialEq + std::fmt::Debug>(
    register: &Register,
    names: &[&str],
    decode: impl Fn(u64) -> Option<C>,
    encode: impl Fn(C) -> Option<u64>,
) {
    let known: u64 = names.iter().map(|name| register.field(name).expect("a field").mask()).sum();
    let mut decoded = 0;
    for word in words() {
        let Some(control) = decode(word) else { continue };
        let encoded = encode(control).expect("what is decoded is encoded");
        decoded += 1;
        assert_eq!(encoded & known, word & known, "{} {word:#x}", register.name);
        assert_eq!(decode(encoded), decode(word), "{} {word:#x}", register.name);
        assert_eq!(register.unnamed(encoded), 0, "{} {word:#x}", register.name);
    }
    assert!(decoded > WORDS / 4, "{}: {decoded} of {WORDS} words decode", register.name);
}

#[test]
fn controls_are_encoded_as_they_are_decoded() {
    controls_agree(
        &fields::TCR_EL1,
        &["T0SZ", "EPD0", "TG0", "T1SZ", "EPD1", "TG1", "IPS", "AS", "HA", "HD", "DS"],
        TranslationControl::decode,
        |control| Some(control.encode()),
    );
    controls_agree(&fields::TCR_EL2, &["T0SZ", "TG0", "PS", "HA", "HD", "DS"], El2Control::decode, |control| {
        Some(control.encode())
    });
    // SL2 counts with DS alone, and is not kept without.
    controls_agree(
        &fields::VTCR_EL2,
        &["T0SZ", "SL0", "TG0", "PS", "VS", "HA", "HD", "DS"],
        Stage2Control::decode,
        Stage2Control::encode,
    );
}

#[test]
fn roots_are_encoded_as_they_are_decoded() {
    for word in words() {
        for layout in [Layout::Bits48, Layout::Lpa, Layout::Lpa2] {
            let root = decode_ttbr(layout, word);
            let identifier = (word >> 48) as u16;
            let encoded = encode_ttbr(layout, root, identifier, word & 1 != 0);
            assert_eq!(encoded, encode_vttbr(layout, root, identifier, word & 1 != 0));
            // With 52-bit addresses bit 1 has nowhere to go: roots are aligned to 64 bytes.
            let kept = if layout == Layout::Bits48 { !0 } else { !0b10 };
            assert_eq!(encoded, word & kept, "{layout:?} {word:#x}");
            assert_eq!(decode_ttbr(layout, encoded), root);
        }
        let types = MemoryTypes(word);
        let bytes: [u8; 8] = std::array::from_fn(|index| types.get(index as u8).0);
        assert_eq!(u64::from_le_bytes(bytes), word);
    }
}

/// Every bit of a leaf or table is output address, attribute, Contiguous or type; and no bit that is reserved has a meaning.
#[test]
fn descriptors_are_encoded_as_they_are_decoded() {
    let layouts =
        |size| if size == PageSize::Size64K { [Layout::Bits48, Layout::Lpa] } else { [Layout::Bits48, Layout::Lpa2] };
    for size in PageSize::ALL {
        for layout in layouts(size) {
            for word in words() {
                let level = Level::ALL[word as usize >> 2 & 3].next().expect("not the last");
                let descriptor = Descriptor::new(word);
                match descriptor.meaning(size, layout, level) {
                    Meaning::Invalid | Meaning::Reserved => {}
                    Meaning::Table(next) => {
                        let attributes = word & layout.table_attribute_mask(size);
                        let made = Descriptor::table(layout, next, attributes);
                        assert_eq!(made, descriptor, "{size} {layout:?} {level} {word:#x}");
                        let reserved = layout.reserved_in_table(size);
                        assert_eq!(reserved & !layout.table_attribute_mask(size), 0);
                        assert_eq!(reserved & TableAttributes::LIMITS.bits(), 0);
                    }
                    Meaning::Leaf(to, contiguous) => {
                        let attributes = word & layout.attribute_mask(size, level);
                        let group = if contiguous { Descriptor::CONTIGUOUS } else { 0 };
                        let made = Descriptor::leaf(layout, level, to, attributes | group);
                        assert_eq!(made, descriptor, "{size} {layout:?} {level}");
                        let reserved = layout.reserved_in_leaf(size, level);
                        let named = Stage1Attributes::IN_PLACE.bits() | Stage2Attributes::IN_PLACE.bits();
                        assert_eq!(reserved & (named | Descriptor::TYPE | Descriptor::CONTIGUOUS), 0);
                        assert_eq!(reserved & !layout.attribute_mask(size, level), 0);
                    }
                }
            }
        }
    }
}

/// Attributes of both stages: what their methods make of fields makes the same bits again.
#[test]
fn attributes_are_encoded_as_they_are_decoded() {
    for word in words() {
        let stage1 = Stage1Attributes::from_bits_retain(word);
        let sh = fields::STAGE1_LEAF.the("SH");
        let memory = Stage1Attributes::memory(stage1.memory_index());
        assert_eq!(memory.bits(), word & fields::STAGE1_LEAF.the("AttrIndx").mask());
        assert_eq!(sh.put(stage1.shareability().into()), word & sh.mask());
        let stage2 = Stage2Attributes::from_bits_retain(word);
        for forced in [false, true] {
            let memory = Stage2Attributes::with_memory(stage2.memory(forced), forced).expect("what is read is made");
            assert_eq!(memory.bits(), word & Stage2Attributes::MEMORY.bits());
        }
        let execute = Stage2Attributes::with_execute(stage2.execute(), true).expect("with FEAT_XNX all is said");
        assert_eq!(execute.bits(), word & Stage2Attributes::EXECUTE.bits());
        let index = with_permission_index(permission_index(Descriptor::new(word)));
        assert_eq!(index & word, index);
        assert_eq!(permission_index(Descriptor::new(index)), permission_index(Descriptor::new(word)));
    }
}

/// Permissions that bits say do not depend on bits that are not about them.
#[test]
fn permissions_depend_on_the_bits_that_name_them() {
    let stage1 =
        (Stage1Attributes::USER | Stage1Attributes::READ_ONLY | Stage1Attributes::NO_EXECUTE | Stage1Attributes::DBM)
            .bits();
    let stage2 = (Stage2Attributes::READ_WRITE | Stage2Attributes::EXECUTE | Stage2Attributes::DBM).bits();
    let control = PermissionControl { manages_dirty_state: true, ..PermissionControl::default() };
    for word in words() {
        let of = |bits| control.stage1(Descriptor::new(bits), TableAttributes::from_bits_retain(word));
        assert_eq!(of(word), of(word & stage1), "{word:#x}");
        let of = |bits| control.stage2(Descriptor::new(bits));
        assert_eq!(of(word), of(word & stage2), "{word:#x}");
    }
}
