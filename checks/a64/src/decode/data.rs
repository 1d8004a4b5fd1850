//! What computes: with a constant, with registers. (C4.1.93, C4.1.95)

use super::{flag, general, general_or_stack, is, signed, width};
use crate::instruction::{General, Instruction, Operand, Operation, Width};

/// ADR, ADD, AND, MOV, UBFM and their kin.
pub(super) fn immediate(word: u32, place: u64) -> Option<Instruction> {
    let (to, width) = (general(word, 0), width(word));
    match word >> 23 & 7 {
        0 | 1 => {
            let offset = (signed(word, 5, 19) << 2) | i64::from(word >> 29 & 3);
            let address = match word >> 31 {
                0 => place.wrapping_add_signed(offset),
                _ => (place & !0xfff).wrapping_add_signed(offset << 12),
            };
            Some(Instruction::Locate { to, address })
        }
        2 => {
            let right = Operand::Immediate(u64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1)));
            Some(sum(word, general_or_stack(word, 5), right, true))
        }
        4 => logical_immediate(word),
        5 => move_wide(word),
        6 if matches!(word >> 29 & 3, 1 | 2) && word >> 31 == word >> 22 & 1 => {
            let bits = width.bytes() as u32 * 8;
            let (rotate, last) = (word >> 16 & 63, word >> 10 & 63);
            if rotate >= bits || last >= bits {
                return None;
            }
            let (low, at) = if last >= rotate { (rotate, 0) } else { (0, bits - rotate) };
            let (from, bits) = (general(word, 5), (last - low + 1) as u8);
            Some(Instruction::Extract {
                to,
                from,
                low: low as u8,
                bits,
                at: at as u8,
                width,
                keeps: word >> 29 & 3 == 1,
            })
        }
        _ => None,
    }
}

/// ADD, ADDS, SUB, SUBS. Without flags the result may go to the stack pointer, where the encoding has one.
fn sum(word: u32, left: General, right: Operand, has_stack: bool) -> Instruction {
    let (is_subtraction, sets_flags) = (word >> 30 & 1 == 1, word >> 29 & 1 == 1);
    let operation = if is_subtraction { Operation::Subtract } else { Operation::Add };
    let to = if has_stack && !sets_flags { general_or_stack(word, 0) } else { general(word, 0) };
    Instruction::Compute { operation, to, left, right, width: width(word), sets_flags }
}

fn logical_immediate(word: u32) -> Option<Instruction> {
    let width = width(word);
    let is_wide = word >> 22 & 1 == 1;
    let pattern = pattern(is_wide, word >> 16 & 63, word >> 10 & 63)?;
    if is_wide && width == Width::Word {
        return None;
    }
    let right = Operand::Immediate(pattern & width.mask());
    let (operation, sets_flags) = logical(word);
    let to = if sets_flags { general(word, 0) } else { general_or_stack(word, 0) };
    Some(Instruction::Compute { operation, to, left: general(word, 5), right, width, sets_flags })
}

const fn logical(word: u32) -> (Operation, bool) {
    match word >> 29 & 3 {
        0 => (Operation::And, false),
        1 => (Operation::Or, false),
        2 => (Operation::ExclusiveOr, false),
        _ => (Operation::And, true),
    }
}

/// DecodeBitMasks: a run of ones in an element of 2 to 64 bits, rotated right, the element repeated.
fn pattern(is_wide: bool, rotate: u32, ones: u32) -> Option<u64> {
    let sizes = u32::from(is_wide) << 6 | !ones & 63;
    let log2 = 31 - (sizes != 0).then_some(sizes)?.leading_zeros();
    if log2 == 0 {
        return None;
    }
    let bits = 1 << log2;
    let (ones, rotate) = (ones & (bits - 1), rotate & (bits - 1));
    if ones == bits - 1 {
        return None;
    }
    let run = (1_u64 << (ones + 1)) - 1;
    let mask = u64::MAX >> (64 - bits);
    let element = if rotate == 0 { run } else { (run >> rotate | run << (bits - rotate)) & mask };
    Some((0..64 / bits).fold(0, |all, copy| all | element << (copy * bits)))
}

fn move_wide(word: u32) -> Option<Instruction> {
    let (to, width) = (general(word, 0), width(word));
    let (value, shift) = (word >> 5 & 0xffff, 16 * (word >> 21 & 3));
    if width == Width::Word && shift > 16 {
        return None;
    }
    let shifted = u64::from(value) << shift;
    let set = |value: u64| {
        let (operation, left, right) = (Operation::Second, General::ZERO, Operand::Immediate(value & width.mask()));
        Instruction::Compute { operation, to, left, right, width, sets_flags: false }
    };
    match word >> 29 & 3 {
        0 => Some(set(!shifted)),
        2 => Some(set(shifted)),
        3 => Some(Instruction::Insert { to, value: value as u16, shift: shift as u8, width }),
        _ => None,
    }
}

/// AND, ADD, LSL, CSEL and their kin.
pub(super) fn register(word: u32) -> Option<Instruction> {
    let (to, left, right, width) = (general(word, 0), general(word, 5), general(word, 16), width(word));
    let amount = word >> 10 & 63;
    let is_shiftable = amount == 0 || word >> 22 & 3 == 0 && amount < width.bytes() as u32 * 8;
    let shifted = Operand::Register { from: right, extend: None, shift: amount as u8 };
    if is(word, 0x1f00_0000, 0x0a00_0000) && is_shiftable {
        let (operation, sets_flags) = match (word >> 21 & 1 == 1, logical(word)) {
            (false, plain) => plain,
            (true, (Operation::And, sets_flags)) => (Operation::Clear, sets_flags),
            _ => return None,
        };
        return Some(moved(Instruction::Compute { operation, to, left, right: shifted, width, sets_flags }));
    }
    if is(word, 0x1f20_0000, 0x0b00_0000) && word >> 22 & 3 != 3 && is_shiftable {
        return Some(sum(word, left, shifted, false));
    }
    if is(word, 0x1fe0_0000, 0x0b20_0000) {
        let extend = match word >> 13 & 7 {
            2 => Some(false),
            6 => Some(true),
            3 | 7 if width == Width::Double => None,
            _ => return None,
        };
        let shift = (word >> 10 & 7) as u8;
        let right = Operand::Register { from: right, extend, shift };
        return (shift <= 4).then(|| sum(word, general_or_stack(word, 5), right, true));
    }
    if is(word, 0x7fe0_0800, 0x1a80_0000) {
        let (flag, adds) = (flag(word >> 12)?, u64::from(word >> 10 & 1));
        return Some(Instruction::Select { to, yes: left, no: right, adds, flag, width });
    }
    let operation = match word & 0x7fe0_fc00 {
        0x1ac0_2000 => Operation::ShiftLeft,
        0x1ac0_2400 => Operation::ShiftRight,
        _ => return None,
    };
    let right = Operand::Register { from: right, extend: None, shift: 0 };
    Some(Instruction::Compute { operation, to, left, right, width, sets_flags: false })
}

/// MOV of a register is ORR with the zero register.
fn moved(instruction: Instruction) -> Instruction {
    match instruction {
        Instruction::Compute { operation: Operation::Or, to, left: General::ZERO, right, width, sets_flags } => {
            let operation = Operation::Second;
            Instruction::Compute { operation, to, left: General::ZERO, right, width, sets_flags }
        }
        other => other,
    }
}
