//! Words that every format has: numbers, and types as C names them.

use a64::instruction::Width;

use crate::error::{Wrong, refused};

/// Decimal, `0x` or `0b`; not more than 64 bits.
pub(crate) fn number(text: &str) -> Option<u64> {
    match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text.strip_prefix("0b")) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
        (_, Some(digits)) => u64::from_str_radix(digits, 2).ok(),
        _ => text.parse().ok(),
    }
}

/// How wide a type is.
pub(crate) fn width_of(name: &str) -> Result<Width, Wrong> {
    Ok(match name {
        "int8_t" | "uint8_t" | "char" => Width::Byte,
        "int16_t" | "uint16_t" | "short" => Width::Half,
        "int" | "unsigned" | "int32_t" | "uint32_t" | "ins_t" => Width::Word,
        "int64_t" | "uint64_t" | "long" | "intptr_t" | "uintptr_t" | "pteval_t" | "parel1_t" => Width::Double,
        _ => return Err(refused(format!("type {name}"), format!("type `{name}` is not known here"))),
    })
}
