//! Registers, field by field.

use vmsa::fields::{Field, Register, Values};
use vmsa::ptdump;
use vmsa::registers::MemoryType;

use super::{Words, conclusions};

/// Registers that higher exception levels have with the fields of EL1's, and the highest of these.
const LIKE_EL1: [(&str, u8); 9] = [
    ("TTBR0", 2),
    ("TTBR1", 2),
    ("MAIR", 3),
    ("TCR2", 2),
    ("PIR", 3),
    ("PIRE0", 2),
    ("POR", 3),
    ("FAR", 3),
    ("SPSR", 3),
];

/// A register by its name, with or without `_EL1`, in either case.
pub(crate) fn find(name: &str) -> Option<&'static Register> {
    let name = name.to_ascii_uppercase();
    let level = |base: &str| name.strip_prefix(base)?.strip_prefix("_EL")?.parse::<u8>().ok();
    let of_el1 = LIKE_EL1.iter().find(|(base, highest)| level(base).is_some_and(|el| (2..=*highest).contains(&el)));
    let names = match (name.as_str(), of_el1) {
        ("TTBR", _) => vec!["TTBR0_EL1".to_owned()],
        ("PSTATE", _) => vec!["SPSR_EL1".to_owned()],
        (_, Some((base, _))) => vec![format!("{base}_EL1")],
        (name, None) => vec![name.to_owned(), format!("{name}_EL1"), format!("{name}_EL2"), format!("{name}_EL0")],
    };
    names.iter().find_map(|name| Register::ALL.into_iter().find(|register| register.name == name))
}

/// The fields of a register in words, by the name that the user has for it.
pub(super) fn decode(register: &Register, name: &str, value: u64, mmfr0: Option<u64>) -> Words {
    let name = if name.contains("_el") { name.to_ascii_uppercase() } else { register.name.to_owned() };
    let unnamed = register.unnamed(value);
    let unnamed = (unnamed != 0).then(|| format!("bits without a field here are set: {unnamed:#x}"));
    Words {
        head: format!("{name} = {value:#018x} (DDI 0487, {})", register.section),
        fields: fields(register, value).into_iter().map(|row| of_level(row, &name)).collect(),
        conclusions: unnamed.into_iter().chain(conclusions::of(register, value, mmfr0)).collect(),
    }
}

/// What the fields of these are for is written for EL1.
fn of_level([field, bits, value, says]: [String; 4], name: &str) -> [String; 4] {
    let says = match name.split_once('_') {
        Some(("SCTLR" | "TCR2", el @ ("EL2" | "EL3"))) => says.replace("EL1&0", el).replace("EL1", el),
        _ => says,
    };
    [field, bits, value, says]
}

/// The fields as rows.
pub(super) fn fields(register: &Register, value: u64) -> Vec<[String; 4]> {
    register.fields.iter().map(|field| row(field, value)).collect()
}

pub(super) fn row(field: &Field, value: u64) -> [String; 4] {
    let this = field.get(value);
    [field.name.to_owned(), bits(field), format!("{this:#x}"), meaning(field, this)]
}

/// Whether a field holds an address, and no count.
pub(crate) const fn is_word(field: &Field) -> bool {
    field.high - field.low >= 16
}

fn bits(field: &Field) -> String {
    if field.high == field.low { format!("[{}]", field.low) } else { format!("[{}:{}]", field.high, field.low) }
}

/// What a field's value says.
pub(crate) fn meaning(field: &Field, value: u64) -> String {
    let says = match field.values {
        Values::Number if field.high == field.low => return yes_or_no(field, value),
        Values::Number if is_word(field) => return field.purpose.to_owned(),
        Values::Number => format!("{value}"),
        Values::Width => format!("{} bits", 64u64.saturating_sub(value)),
        Values::MemoryType => return memory_type(MemoryType(value as u8)),
        Values::Names(_) => field.value_name(value).unwrap_or("reserved").to_owned(),
    };
    format!("{}: {says}", field.purpose)
}

fn yes_or_no(field: &Field, value: u64) -> String {
    format!("{}: {}", if value == 0 { "no" } else { "yes" }, field.purpose)
}

/// A byte of MAIR in words (D23.2, MAIR_EL1).
pub(crate) fn memory_type(memory: MemoryType) -> String {
    let name = ptdump::memory_name(memory).map(|name| format!("{name}, ")).unwrap_or_default();
    let says = match (memory.0 >> 4, memory.0 & 0xf) {
        (0, low) if low & 0b10 != 0 => "unpredictable".to_owned(),
        (0, low) => {
            let kind = ["nGnRnE", "nGnRE", "nGRE", "GRE"][usize::from(low >> 2)];
            let xs = if low & 1 != 0 { ", without the XS attribute (FEAT_XS)" } else { "" };
            format!("Device-{kind}{xs}")
        }
        (0xf, 0) => "Normal write-back, tagged (FEAT_MTE2)".to_owned(),
        (0xe, 0) => "Normal write-back, tags not accessible (FEAT_MTE_PERM)".to_owned(),
        (0xa, 0) => "Normal write-through, without the XS attribute (FEAT_XS)".to_owned(),
        (0x4, 0) => "Normal non-cacheable, without the XS attribute (FEAT_XS)".to_owned(),
        (_, 0) => "unpredictable".to_owned(),
        (outer, inner) if outer == inner => format!("Normal {}", cacheability(outer)),
        (outer, inner) => format!("Normal, outer {}, inner {}", cacheability(outer), cacheability(inner)),
    };
    format!("{name}{says}")
}

fn cacheability(field: u8) -> String {
    let policy = match field >> 2 {
        0 => "write-through transient",
        1 if field & 0b11 == 0 => return "non-cacheable".to_owned(),
        1 => "write-back transient",
        2 => "write-through",
        _ => "write-back",
    };
    let allocation = match field & 0b11 {
        0 => "no allocation",
        1 => "write allocation",
        2 => "read allocation",
        _ => "read and write allocation",
    };
    format!("{policy} with {allocation}")
}
