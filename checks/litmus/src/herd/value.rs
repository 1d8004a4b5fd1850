//! Values: numbers, addresses of variables and of their descriptors, and descriptors written as fields.

use super::init::World;
use crate::tables::Leaf;

/// AP\[2\]: read-only.
const READ_ONLY: u64 = 1 << 7;
const ACCESS_FLAG: u64 = 1 << 10;
const DIRTY_MODIFIER: u64 = 1 << 51;

/// Names that stand for the descriptor of a variable: `pte_x`, `PTE(x)`, `TTD(x)`.
pub(super) fn descriptor_of(text: &str) -> Option<&str> {
    text.strip_prefix("pte_").or_else(|| inside(text, "PTE")).or_else(|| inside(text, "TTD"))
}

/// Names that stand for the physical address of a variable: `phy_x`, `PA(x)`.
pub(super) fn physical_of(text: &str) -> Option<&str> {
    text.strip_prefix("phy_").or_else(|| inside(text, "PA"))
}

fn inside<'a>(text: &'a str, function: &str) -> Option<&'a str> {
    text.strip_prefix(function)?.trim_start().strip_prefix('(')?.strip_suffix(')').map(str::trim)
}

/// A number: decimal or `0x`, and below zero in two's complement.
pub(super) fn number(text: &str) -> Option<u64> {
    if let Some(rest) = text.strip_prefix('-') {
        return number(rest.trim_start()).filter(|_| !rest.starts_with('-')).map(u64::wrapping_neg);
    }
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The variables that `text`, a value or a place, speaks of.
pub(super) fn variables(text: &str) -> Vec<&str> {
    let text = text.trim();
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let parts = match inner {
        Some(inner) => fields(inner).into_iter().filter_map(|field| field.strip_prefix("oa:")).collect(),
        None => vec![text],
    };
    let name = |part| descriptor_of(part).or_else(|| physical_of(part)).unwrap_or(part);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_name = |name: &&str| name.chars().all(is_part) && name.starts_with(|letter: char| !letter.is_ascii_digit());
    parts.into_iter().map(str::trim).map(name).filter(is_name).collect()
}

/// The value of `text`; a descriptor that names no output address has that of `owner`.
pub(super) fn value(text: &str, world: &World, owner: Option<&str>) -> Result<u64, String> {
    let text = text.trim();
    if let Some(number) = number(text) {
        return Ok(number);
    }
    if text.starts_with('(') {
        return descriptor(text, world, owner);
    }
    let unknown = |name: &str| format!("`{name}` is no variable");
    if let Some(name) = descriptor_of(text) {
        return world.slot(name).ok_or_else(|| unknown(name));
    }
    if let Some(name) = physical_of(text) {
        return world.physical(name).ok_or_else(|| unknown(name));
    }
    world.address(text).ok_or_else(|| unknown(text))
}

/// `(oa:PA(y), valid:1, af:1, db:1, dbm:0, attrs:(Normal,iNC,oNC))`; what is left out is as in this line, but Normal
/// write-back.
fn descriptor(text: &str, world: &World, owner: Option<&str>) -> Result<u64, String> {
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("`{text}` is no descriptor"))?;
    let mut output = owner.and_then(|owner| world.physical(owner)).unwrap_or(0);
    let (mut is_valid, mut attributes, mut leaf) = (true, 0, Leaf::STAGE1.0);
    for field in fields(inner) {
        let (name, text) = field.split_once(':').ok_or_else(|| format!("field `{field}` has no value"))?;
        let text = text.trim();
        let is_set = || match text {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(format!("field `{field}` is neither 0 nor 1")),
        };
        let mut put = |mask: u64, is_set: bool| leaf = if is_set { leaf | mask } else { leaf & !mask };
        match name.trim() {
            "oa" => output = value(text, world, owner)?,
            "valid" => is_valid = is_set()?,
            "af" => put(ACCESS_FLAG, is_set()?),
            "db" => put(READ_ONLY, !is_set()?),
            "dbm" => put(DIRTY_MODIFIER, is_set()?),
            "el0" => put(1 << 6, is_set()?),
            "attrs" => attributes = attribute_index(text)?,
            _ => return Err(format!("field `{name}` is not known")),
        }
    }
    let descriptor = Leaf(leaf | attributes << 2).descriptor(3, output);
    Ok(if is_valid { descriptor } else { descriptor & !1 })
}

/// Fields, apart at commas outside parentheses.
fn fields(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// The index in MAIR of a memory type.
fn attribute_index(text: &str) -> Result<u64, String> {
    let plain: String = text.chars().filter(|letter| !letter.is_whitespace() && !"()".contains(*letter)).collect();
    match plain.as_str() {
        "Normal" | "Normal,iWB,oWB" | "Normal,ISH,iWB,oWB" => Ok(0),
        "Device-GRE" => Ok(1),
        "Normal,iNC,oNC" => Ok(2),
        "Device-nGRE" => Ok(3),
        "Device-nGnRE" => Ok(4),
        "Device-nGnRnE" => Ok(5),
        _ => Err(format!("memory type `{text}` is not known")),
    }
}
