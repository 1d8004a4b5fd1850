//! `vellum encode`: fields to a register, a descriptor or an operand. What decodes must encode to the same bits.

use image::number;
use vmsa::fields::{Field, Register, STAGE1_LEAF, STAGE1_TABLE, STAGE2_LEAF, Values};
use vmsa::maintenance::{LevelHint, operand_by_address, operand_by_asid, operand_by_intermediate};
use vmsa::registers::MemoryType;
use vmsa::{Descriptor, Level, PhysAddr, TlbiOp};

use crate::args::{EncodeArguments, EncodingArguments, StageChoice};
use crate::decode::find;
use crate::select::Failure;
use crate::{Status, table};

/// Runs the command.
pub(crate) fn run(arguments: &EncodeArguments) -> Result<Status, Failure> {
    let word = encode(&arguments.what, &arguments.fields, &arguments.encoding)?;
    table::print(&format!("{word:#018x}\n"))?;
    Ok(Status::Clean)
}

fn encode(what: &str, fields: &[String], encoding: &EncodingArguments) -> Result<u64, Failure> {
    match what.to_ascii_lowercase().as_str() {
        "tlbi" => tlbi(fields, encoding),
        "descriptor" | "pte" => descriptor(fields, encoding),
        name => {
            let register = find(name).ok_or_else(|| Failure(format!("nothing known of `{what}`")))?;
            fields.iter().try_fold(0, |word, text| assign(register, word, text))
        }
    }
}

/// `FIELD=VALUE`, or `FIELD` alone for 1.
fn split(text: &str) -> (&str, &str) {
    text.split_once('=').unwrap_or((text, "1"))
}

fn assign(register: &Register, word: u64, text: &str) -> Result<u64, Failure> {
    let (name, value) = split(text);
    let field = register.field(name).ok_or_else(|| {
        let names: Vec<&str> = register.fields.iter().map(|field| field.name).collect();
        Failure(format!("{} has no field `{name}`: expected {}", register.name, names.join(", ")))
    })?;
    let value = field_value(field, value)?;
    field.set(word, value).ok_or_else(|| {
        Failure(format!("{value:#x} does not fit in {name}, which holds {:#x} at most", field.largest()))
    })
}

/// A number, the name of a value, or the name of a memory type.
fn field_value(field: &Field, text: &str) -> Result<u64, Failure> {
    if let Ok(value) = number(text) {
        return Ok(value);
    }
    let same = |name: &str| name.eq_ignore_ascii_case(text);
    let by_name = match field.values {
        Values::Names(names) => names.iter().find(|(_, name)| same(name)).map(|(value, _)| *value),
        Values::MemoryType => memory_type(text).map(|memory| u64::from(memory.0)),
        _ => None,
    };
    by_name.ok_or_else(|| match field.values {
        Values::Names(names) => {
            let list: Vec<String> = names.iter().map(|(value, name)| format!("{value} ({name})")).collect();
            Failure(format!("`{text}` is no value of {}: expected {}", field.name, list.join(", ")))
        }
        _ => Failure(format!("`{text}` is no value of {}: expected a number", field.name)),
    })
}

fn memory_type(text: &str) -> Option<MemoryType> {
    Some(match text.to_ascii_lowercase().as_str() {
        "normal" => MemoryType::NORMAL,
        "tagged" | "normal-tagged" => MemoryType::NORMAL_TAGGED,
        "nc" | "normal-nc" => MemoryType::NORMAL_NC,
        "ngnrne" | "device-ngnrne" => MemoryType::DEVICE_NGNRNE,
        "ngnre" | "device-ngnre" => MemoryType::DEVICE_NGNRE,
        "ngre" | "device-ngre" => MemoryType::DEVICE_NGRE,
        "gre" | "device-gre" => MemoryType::DEVICE_GRE,
        _ => return None,
    })
}

/// `to=ADDRESS` makes a leaf, `next=ADDRESS` a table; the other fields are attributes.
fn descriptor(fields: &[String], encoding: &EncodingArguments) -> Result<u64, Failure> {
    let layout = encoding.layout();
    let address = |name: &str| {
        let given = fields.iter().map(|text| split(text)).find(|(key, _)| key.eq_ignore_ascii_case(name));
        given.map(|(_, value)| number(value)).transpose()
    };
    let (to, next) = (address("to")?, address("next")?);
    let (table, empty) = match (to, next) {
        (Some(to), None) => {
            check_address(to, encoding.granule.level_shift(encoding.level), layout.output_bits())?;
            if !encoding.granule.has_leaf(encoding.level, layout) {
                return Err(Failure(format!("{} pages have no leaf at {}", encoding.granule, encoding.level)));
            }
            let table = if encoding.stage == StageChoice::One { &STAGE1_LEAF } else { &STAGE2_LEAF };
            (table, Descriptor::leaf(layout, encoding.level, PhysAddr::new(to), 0))
        }
        (None, Some(next)) if encoding.level != Level::L3 => {
            check_address(next, encoding.granule.shift(), layout.output_bits())?;
            (&STAGE1_TABLE, Descriptor::table(layout, PhysAddr::new(next), 0))
        }
        (None, Some(_)) => return Err(Failure("level 3 has no tables".to_owned())),
        _ => return Err(Failure("a descriptor needs to=ADDRESS (leaf) or next=ADDRESS (table)".to_owned())),
    };
    let rest = fields.iter().filter(|text| !matches!(split(text).0.to_ascii_lowercase().as_str(), "to" | "next"));
    let attributes = rest.into_iter().try_fold(0, |word, text| assign(table, word, text))?;
    if attributes & empty.bits() & !Descriptor::TYPE != 0 && layout == vmsa::Layout::Lpa2 {
        return Err(Failure("with LPA2 bits 9:8 are output address: SH comes from TCR".to_owned()));
    }
    Ok(empty.bits() | attributes)
}

fn check_address(address: u64, shift: u32, bits: u32) -> Result<(), Failure> {
    if address & ((1 << shift) - 1) != 0 {
        return Err(Failure(format!("{address:#x} is not a multiple of {:#x}", 1u64 << shift)));
    }
    if address >> bits != 0 {
        return Err(Failure(format!("{address:#x} has more than {bits} bits (--wide gives 52)")));
    }
    Ok(())
}

/// The operand of a TLBI: `vae1is asid=3 va=0x…`. A level hint needs `ttl`, for a wrong one invalidates nothing.
fn tlbi(fields: &[String], encoding: &EncodingArguments) -> Result<u64, Failure> {
    let (name, fields) =
        fields.split_first().ok_or_else(|| Failure("which TLBI? encode tlbi vae1is asid=3 va=0x…".to_owned()))?;
    let op = TlbiOp::find(name).ok_or_else(|| Failure(format!("no TLBI `{name}`; one is vae1is")))?;
    let mut values = [("asid", 0), ("va", 0), ("ipa", 0), ("ttl", 0)];
    for text in fields {
        let (key, value) = split(text);
        let slot = values.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(key));
        let slot = slot.ok_or_else(|| Failure(format!("`{key}` is none of asid, va, ipa, ttl")))?;
        slot.1 = number(value)?;
    }
    let [(_, asid), (_, va), (_, ipa), (_, ttl)] = values;
    let asid = u16::try_from(asid).map_err(|_| Failure(format!("ASID {asid:#x} has more than 16 bits")))?;
    let hint =
        if ttl == 0 { LevelHint::NONE } else { LevelHint::leaf(encoding.granule, encoding.layout(), encoding.level) };
    let name = op.name().unwrap_or("");
    match name {
        _ if !op.takes_operand() => Ok(0),
        _ if name.starts_with('R') => Err(Failure("operands by range depend on a range: not encoded here".to_owned())),
        _ if name.contains("IPAS2") => Ok(operand_by_intermediate(hint, ipa)),
        _ if name.starts_with("ASID") => Ok(operand_by_asid(asid)),
        _ => Ok(operand_by_address(asid, hint, va)),
    }
}

#[cfg(test)]
mod tests;
