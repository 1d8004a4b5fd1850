//! Registers, field by field.

use vmsa::fields::{Field, Register, Values};
use vmsa::registers::MemoryType;
use vmsa::{AddressHalf, Layout, ptdump, registers};

use terminal::Table;

/// Registers of EL2 that have the fields of EL1's.
const LIKE_EL1: [&str; 7] = ["TTBR0", "TTBR1", "MAIR", "TCR2", "PIR", "PIRE0", "POR"];

/// A register by its name, with or without `_EL1`, in either case.
pub(crate) fn find(name: &str) -> Option<&'static Register> {
    let name = name.to_ascii_uppercase();
    let of_el1 = name.strip_suffix("_EL2").filter(|base| LIKE_EL1.contains(base)).map(|base| format!("{base}_EL1"));
    let names = match (name.as_str(), of_el1) {
        ("TTBR", _) => vec!["TTBR0_EL1".to_owned()],
        (_, Some(of_el1)) => vec![of_el1],
        (name, None) => vec![name.to_owned(), format!("{name}_EL1"), format!("{name}_EL2")],
    };
    names.iter().find_map(|name| Register::ALL.into_iter().find(|register| register.name == name))
}

/// The fields of a register in words.
pub(super) fn decode(register: &Register, value: u64) -> String {
    let mut text = format!("{} = {value:#018x} (DDI 0487, {})\n", register.name, register.section);
    text += &fields(register, value);
    let unnamed = register.unnamed(value);
    if unnamed != 0 {
        text += &format!("  bits without a field here are set: {unnamed:#x}\n");
    }
    for line in conclusions(register, value) {
        text += &format!("  {line}\n");
    }
    text
}

/// The fields as aligned lines.
pub(super) fn fields(register: &Register, value: u64) -> String {
    let mut table = Table::new("  ");
    for field in register.fields {
        let this = field.get(value);
        table.row([field.name.to_owned(), bits(field), format!("{this:#x}"), meaning(field, this)]);
    }
    table.to_string()
}

fn bits(field: &Field) -> String {
    if field.high == field.low { format!("[{}]", field.low) } else { format!("[{}:{}]", field.high, field.low) }
}

/// What a field's value says.
pub(crate) fn meaning(field: &Field, value: u64) -> String {
    let says = match field.values {
        Values::Number if field.high == field.low => return yes_or_no(field, value),
        Values::Number if field.high - field.low >= 16 => return field.purpose.to_owned(),
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

/// What several fields say together.
fn conclusions(register: &Register, value: u64) -> Vec<String> {
    match register.name {
        "TCR_EL1" => [AddressHalf::Upper, AddressHalf::Lower].map(|half| half_in_words(value, half)).to_vec(),
        "VTCR_EL2" => vec![match image::shape_of_stage2(value) {
            Ok(shape) => format!("stage 2: {shape}, {} descriptors there", shape.entries(shape.start)),
            Err(error) => format!("stage 2: {error}"),
        }],
        "TCR_EL2" => vec![
            match image::shape_of_el2(value) {
                Ok(shape) => format!("{shape}, {:#x} to {:#x}", shape.base(), shape.last()),
                Err(error) => error.to_string(),
            },
            "with HCR_EL2.E2H = 1 it has the fields of TCR_EL1: decode tcr_el1".to_owned(),
        ],
        "TTBR0_EL1" | "TTBR1_EL1" | "VTTBR_EL2" => {
            let narrow = registers::decode_ttbr(Layout::Bits48, value).bits();
            let wide = registers::decode_ttbr(Layout::Lpa, value).bits();
            vec![format!("root at {narrow:#x}; with 52-bit addresses at {wide:#x}")]
        }
        "PAR_EL1" if value & 1 == 0 => vec![format!("output address {:#x}", value & 0x000f_ffff_ffff_f000)],
        _ => Vec::new(),
    }
}

fn half_in_words(tcr: u64, half: AddressHalf) -> String {
    let name = if half == AddressHalf::Upper { "upper half" } else { "lower half" };
    match image::shape_of_half(tcr, half) {
        Ok(shape) => format!("{name}: {shape}, {:#x} to {:#x}", shape.base(), shape.last()),
        Err(error) => format!("{name}: {error}"),
    }
}
