//! Operands: registers, constants, addresses.

use a64::instruction::{Address, General, Operand, Width, WriteBack};

use crate::words;

/// A number: decimal, `0x`, `0b`, with or without `#`, or negative.
pub(super) fn immediate(text: &str) -> Option<u64> {
    let text = text.strip_prefix('#').unwrap_or(text);
    if let Some(text) = text.strip_prefix('-') {
        return immediate(text).map(u64::wrapping_neg);
    }
    words::number(text)
}

/// A register and its width: `X0` to `X30`, `W0` to `W30`, `XZR`, `WZR`.
pub(super) fn register(text: &str) -> Option<(General, Width)> {
    let (width, number) = match text.split_at_checked(1)? {
        ("X" | "x" | "R" | "r", number) => (Width::Double, number),
        ("W" | "w", number) => (Width::Word, number),
        _ => return None,
    };
    if number.eq_ignore_ascii_case("ZR") {
        return Some((General::ZERO, width));
    }
    let number: u8 = number.parse().ok()?;
    (number < 31).then_some((General(number), width))
}

/// A register or a constant.
pub(super) fn either(text: &str) -> Option<Operand> {
    match register(text) {
        Some((from, _)) => Some(Operand::Register { from, extend: None, shift: 0 }),
        None => immediate(text).map(Operand::Immediate),
    }
}

const fn at(base: General, offset: Operand) -> Address {
    Address { base, offset, write_back: WriteBack::No }
}

/// `[X1]`, `[X1,#8]`, `[X1,X2]`, `[X1,W2,SXTW]`, `[X1,X2,LSL #3]`.
pub(super) fn address(text: &str) -> Option<Address> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let mut parts = inner.split(',').map(str::trim);
    let (base, Width::Double) = register(parts.next()?)? else { return None };
    let Some(offset) = parts.next() else { return Some(at(base, Operand::Immediate(0))) };
    let modifier = parts.next();
    if parts.next().is_some() {
        return None;
    }
    let Some((from, width)) = register(offset) else {
        let offset = immediate(offset).filter(|_| modifier.is_none())?;
        return Some(at(base, Operand::Immediate(offset)));
    };
    let (extend, shift) = match (width, modifier) {
        (Width::Double, None) => (None, 0),
        (_, Some(modifier)) => extension(width, modifier).filter(|it| it.1 < 4)?,
        (_, None) => return None,
    };
    Some(at(base, Operand::Register { from, extend, shift }))
}

/// `SXTW`, `UXTW #3`, `LSL #3`: signedness of a W register, and a shift.
pub(super) fn extension(width: Width, text: &str) -> Option<(Option<bool>, u8)> {
    let (name, amount) = text.split_once(' ').unwrap_or((text, "#0"));
    let shift = u8::try_from(immediate(amount.trim())?).ok().filter(|shift| *shift < 64)?;
    match (name.to_ascii_uppercase().as_str(), width) {
        ("LSL" | "SXTX" | "UXTX", Width::Double) => Some((None, shift)),
        ("LSL", Width::Word) if shift < 32 => Some((None, shift)),
        ("SXTW", Width::Word) => Some((Some(true), shift)),
        ("UXTW", Width::Word) => Some((Some(false), shift)),
        _ => None,
    }
}
