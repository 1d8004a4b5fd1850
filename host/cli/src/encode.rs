//! `vellum encode`: fields to a register, a descriptor or an operand. What decodes must encode to the same bits.

use image::{count, number};
use terminal::Ending;
use vmsa::fields::{Field, Register, Values};
use vmsa::maintenance::{
    LevelHint, RangeOperand, TlbiOperand, operand_by_address, operand_by_asid, operand_by_intermediate,
};
use vmsa::registers::{MemoryType, encode_ttbr};
use vmsa::{
    Descriptor, Granule, Granule4K, Granule16K, Granule64K, Layout, Level, PageSize, PhysAddr, TlbiOp,
    with_permission_index,
};

use crate::args::{EncodeArguments, EncodingArguments};
use crate::decode::{find, is_word, leaf_format, table_format, unknown};
use crate::select::Failure;

/// Runs the command.
pub(crate) fn run(arguments: &EncodeArguments) -> Result<Ending, Failure> {
    let word = encode(&arguments.what, &arguments.fields, &arguments.encoding)?;
    terminal::try_print(format_args!("{word:#018x}\n"))?;
    Ok(Ending::Clean)
}

fn encode(what: &str, fields: &[String], encoding: &EncodingArguments) -> Result<u64, Failure> {
    match what.to_ascii_lowercase().as_str() {
        "tlbi" => tlbi(fields, encoding),
        "descriptor" | "pte" => descriptor(fields, encoding),
        name => {
            let register = find(name).ok_or_else(|| unknown(what, &["descriptor", "tlbi"]))?;
            fields.iter().try_fold(0, |word, text| match split(text) {
                ("root", address) if register.field("BADDR").is_some() => Ok(word | root(number(address)?, encoding)?),
                _ => assign(register, word, text),
            })
        }
    }
}

/// `root=ADDRESS` of a TTBR: BADDR, whose bits 5:2 are address bits 51:48 with `--wide`.
fn root(address: u64, encoding: &EncodingArguments) -> Result<u64, Failure> {
    let layout = encoding.layout();
    check_address(address, 6, layout.output_bits())?;
    Ok(encode_ttbr(layout, PhysAddr::new(address), 0, false))
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

/// A number, the name of a value, or the name of a memory type. Addresses and memory types are words, all else is counted.
fn field_value(field: &Field, text: &str) -> Result<u64, Failure> {
    let is_word = field.values == Values::MemoryType || is_word(field);
    let error = match if is_word { number(text) } else { count(text) } {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
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
        _ => error.into(),
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

/// `to=ADDRESS` makes a leaf, `next=ADDRESS` a table; the other fields are attributes, and `piindex=N` where permissions are
/// indirect.
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
            (&leaf_format(encoding).register, Descriptor::leaf(layout, encoding.level, PhysAddr::new(to), 0))
        }
        (None, Some(next)) if encoding.level != Level::L3 => {
            check_address(next, encoding.granule.shift(), layout.output_bits())?;
            (&table_format(encoding).register, Descriptor::table(layout, PhysAddr::new(next), 0))
        }
        (None, Some(_)) => return Err(Failure("level 3 has no tables".to_owned())),
        _ => return Err(Failure("a descriptor needs to=ADDRESS (leaf) or next=ADDRESS (table)".to_owned())),
    };
    let rest = fields.iter().filter(|text| !matches!(split(text).0.to_ascii_lowercase().as_str(), "to" | "next"));
    let attributes = rest.into_iter().try_fold(0, |word, text| match split(text) {
        ("piindex", index) if table.field("PIIndex0").is_some() => Ok(word | permissions(index)?),
        _ => assign(table, word, text),
    })?;
    if attributes & empty.bits() & !Descriptor::TYPE != 0 && layout == Layout::Lpa2 {
        return Err(Failure("with LPA2 bits 9:8 are output address: SH comes from TCR".to_owned()));
    }
    Ok(empty.bits() | attributes)
}

/// `piindex=0` to 15, whose bits a descriptor has in four places.
fn permissions(index: &str) -> Result<u64, Failure> {
    let index = count(index)?;
    let fits = u8::try_from(index).ok().filter(|index| *index < 16);
    fits.map(with_permission_index).ok_or_else(|| Failure(format!("PIIndex {index:#x} has more than 4 bits")))
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

/// What the operand of a TLBI is made of.
struct Operand {
    asid: u16,
    address: u64,
    pages: Option<u64>,
    /// The level of the leaves, if a hint is wanted: a wrong one invalidates nothing.
    level: Option<Level>,
}

/// The operand of a TLBI: `vae1is asid=3 va=0x…`, `rvae1is va=0x… pages=32`.
fn tlbi(fields: &[String], encoding: &EncodingArguments) -> Result<u64, Failure> {
    let (name, fields) =
        fields.split_first().ok_or_else(|| Failure("which TLBI? encode tlbi vae1is asid=3 va=0x…".to_owned()))?;
    let op = TlbiOp::find(name).ok_or_else(|| Failure(format!("no TLBI `{name}`; one is vae1is")))?;
    let known: &[&str] = match op.operand() {
        TlbiOperand::Nothing => &[],
        TlbiOperand::Asid => &["asid"],
        TlbiOperand::Address => &["asid", "va", "ttl"],
        TlbiOperand::AddressAnyAsid => &["va", "ttl"],
        TlbiOperand::Range => &["asid", "va", "pages", "ttl"],
        TlbiOperand::RangeAnyAsid => &["va", "pages", "ttl"],
        TlbiOperand::Intermediate => &["ipa", "ttl"],
        TlbiOperand::IntermediateRange => &["ipa", "pages", "ttl"],
    };
    let operand = operand(op, known, fields, encoding)?;
    Ok(match op.operand() {
        TlbiOperand::Nothing => 0,
        TlbiOperand::Asid => operand_by_asid(operand.asid),
        TlbiOperand::Address | TlbiOperand::AddressAnyAsid => {
            operand_by_address(operand.asid, hint(&operand, encoding), operand.address)
        }
        TlbiOperand::Range | TlbiOperand::RangeAnyAsid | TlbiOperand::IntermediateRange => {
            by_range(&operand, encoding)?
        }
        TlbiOperand::Intermediate => operand_by_intermediate(hint(&operand, encoding), operand.address),
    })
}

fn hint(operand: &Operand, encoding: &EncodingArguments) -> LevelHint {
    operand.level.map_or(LevelHint::NONE, |level| LevelHint::leaf(encoding.granule, encoding.layout(), level))
}

fn operand(op: TlbiOp, known: &[&str], fields: &[String], encoding: &EncodingArguments) -> Result<Operand, Failure> {
    let mut operand = Operand { asid: 0, address: 0, pages: None, level: None };
    for text in fields {
        let (key, value) = split(text);
        let key = key.to_ascii_lowercase();
        if !known.contains(&key.as_str()) {
            let expected = if known.is_empty() { "none: it has no operand".to_owned() } else { known.join(", ") };
            return Err(Failure(format!("tlbi {op} has no field `{key}`: expected {expected}")));
        }
        let value = if matches!(key.as_str(), "va" | "ipa") { number(value)? } else { count(value)? };
        match key.as_str() {
            "asid" => {
                let too_wide = |_| Failure(format!("ASID {value:#x} has more than 16 bits"));
                operand.asid = u16::try_from(value).map_err(too_wide)?;
            }
            "pages" => operand.pages = Some(value),
            "ttl" => operand.level = (value != 0).then_some(encoding.level),
            _ => operand.address = value,
        }
    }
    Ok(operand)
}

fn by_range(operand: &Operand, encoding: &EncodingArguments) -> Result<u64, Failure> {
    match encoding.granule {
        PageSize::Size4K => by_range_of::<Granule4K>(operand, encoding.layout()),
        PageSize::Size16K => by_range_of::<Granule16K>(operand, encoding.layout()),
        PageSize::Size64K => by_range_of::<Granule64K>(operand, encoding.layout()),
    }
}

/// One operand covers (NUM + 1) << (5 × SCALE + 1) pages: what none covers exactly is refused, for less would leave
/// translations behind.
fn by_range_of<G: Granule>(operand: &Operand, layout: Layout) -> Result<u64, Failure> {
    let address = operand.address;
    let pages = operand.pages.ok_or_else(|| Failure("a range needs pages=N".to_owned()))?;
    let unit = if layout == Layout::Lpa2 { 1 << 16 } else { G::PAGE_SIZE.size_bytes() };
    if !address.is_multiple_of(unit) {
        return Err(Failure(format!("{address:#x} is not a multiple of {unit:#x}")));
    }
    let range = RangeOperand::largest::<G>(layout, address, pages);
    let range = range.ok_or_else(|| Failure(format!("a range has two pages or more, not {pages}")))?;
    if range.pages() != pages {
        let covered = range.pages();
        let rest = address.wrapping_add(covered << G::SHIFT);
        let line = format!("no one operand covers {pages} pages: encode {covered}, then the rest from {rest:#x}");
        return Err(Failure(line));
    }
    Ok(range.encode::<G>(layout, operand.asid, operand.level, address))
}

#[cfg(test)]
mod tests;
