//! Machine code to instructions. A word that is not known here is no instruction, and never taken for another.
//! (DDI 0487, C4.1)

mod data;
mod memory;
mod system;

pub use system::{barriers, encode_barrier};

use crate::instruction::{Flag, General, Instruction, When, Width};

/// The machine code of NOP.
pub const NOP: u32 = 0xd503_201f;

/// Decodes the `word` at address `place`, or `None` if it is no instruction that is known here.
pub fn decode(word: u32, place: u64) -> Option<Instruction> {
    match word >> 25 & 15 {
        0b1000 | 0b1001 => data::immediate(word, place),
        0b0101 | 0b1101 => data::register(word),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => memory::memory(word, place),
        0b1010 | 0b1011 => branch(word, place).or_else(|| system::system(word)),
        _ => None,
    }
}

/// True when the bits of `word` under `mask` are `value`.
const fn is(word: u32, mask: u32, value: u32) -> bool {
    word & mask == value
}

/// The register whose number begins at bit `low`; 31 is the zero register.
const fn general(word: u32, low: u32) -> General {
    General((word >> low & 31) as u8)
}

/// The same; 31 is the stack pointer.
const fn general_or_stack(word: u32, low: u32) -> General {
    match general(word, low) {
        General::ZERO => General::STACK,
        other => other,
    }
}

/// W or X registers, as bit 31 says.
const fn width(word: u32) -> Width {
    if word >> 31 == 1 { Width::Double } else { Width::Word }
}

/// Bits `low` to `low + count - 1` as a signed number.
const fn signed(word: u32, low: u32, count: u32) -> i64 {
    ((word << (32 - low - count)) as i32 >> (32 - count)) as i64
}

/// The address of a branch whose offset, in instructions, is `count` bits from bit `low` on.
const fn target(word: u32, place: u64, low: u32, count: u32) -> u64 {
    place.wrapping_add_signed(signed(word, low, count) * 4)
}

const fn flag(number: u32) -> Option<Flag> {
    Some(match number & 15 {
        0 => Flag::Eq,
        1 => Flag::Ne,
        2 => Flag::Hs,
        3 => Flag::Lo,
        4 => Flag::Mi,
        5 => Flag::Pl,
        8 => Flag::Hi,
        9 => Flag::Ls,
        10 => Flag::Ge,
        11 => Flag::Lt,
        12 => Flag::Gt,
        13 => Flag::Le,
        _ => return None,
    })
}

fn branch(word: u32, place: u64) -> Option<Instruction> {
    let go = |when, target| Some(Instruction::Branch { when, target });
    if is(word, 0xfc00_0000, 0x1400_0000) {
        return go(When::Always, target(word, place, 0, 26));
    }
    if is(word, 0xfc00_0000, 0x9400_0000) {
        return Some(Instruction::BranchWithLink { target: target(word, place, 0, 26) });
    }
    if is(word, 0xff00_0010, 0x5400_0000) {
        let when = if word & 15 == 14 { When::Always } else { When::Flag(flag(word)?) };
        return go(when, target(word, place, 5, 19));
    }
    let (tested, is_not) = (general(word, 0), word >> 24 & 1 == 1);
    if is(word, 0x7e00_0000, 0x3400_0000) {
        let width = width(word);
        let when = if is_not { When::NotZero(tested, width) } else { When::Zero(tested, width) };
        return go(when, target(word, place, 5, 19));
    }
    if is(word, 0x7e00_0000, 0x3600_0000) {
        let bit = (word >> 26 & 32 | word >> 19 & 31) as u8;
        let when = if is_not { When::Set(tested, bit) } else { When::Unset(tested, bit) };
        return go(when, target(word, place, 5, 14));
    }
    let target = general(word, 5);
    match word & 0xffff_fc1f {
        0xd61f_0000 | 0xd65f_0000 => Some(Instruction::BranchTo { target, links: false }),
        0xd63f_0000 => Some(Instruction::BranchTo { target, links: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
