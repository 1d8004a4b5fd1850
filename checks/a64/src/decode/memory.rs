//! Loads and stores. (C4.1.94)

use super::{general, general_or_stack, is, signed, target, width};
use crate::instruction::{Address, General, Instruction, Operand, Operation, Ordering, Width, WriteBack};

pub(super) fn memory(word: u32, place: u64) -> Option<Instruction> {
    if is(word, 0xbf00_0000, 0x1800_0000) {
        let width = if word >> 30 & 1 == 1 { Width::Double } else { Width::Word };
        return Some(Instruction::LoadLiteral { to: general(word, 0), place: target(word, place, 5, 19), width });
    }
    if is(word, 0x7e00_0000, 0x2800_0000) {
        return pair(word);
    }
    if is(word, 0x3f00_0000, 0x0800_0000) {
        return ordered(word);
    }
    if is(word, 0x3f20_0c00, 0x3820_0000) {
        return atomic(word);
    }
    let (offset, write_back) = if is(word, 0x3f00_0000, 0x3900_0000) {
        (Operand::Immediate(u64::from(word >> 10 & 0xfff) << (word >> 30)), WriteBack::No)
    } else if is(word, 0x3f20_0000, 0x3800_0000) {
        let write_back = match word >> 10 & 3 {
            0 => WriteBack::No,
            1 => WriteBack::After,
            3 => WriteBack::Before,
            _ => return None,
        };
        (Operand::Immediate(signed(word, 12, 9) as u64), write_back)
    } else if is(word, 0x3f20_0c00, 0x3820_0800) {
        (register_offset(word)?, WriteBack::No)
    } else {
        return None;
    };
    let address = Address { base: general_or_stack(word, 5), offset, write_back };
    let (register, width, ordering) = (general(word, 0), size(word), Ordering::default());
    match word >> 22 & 3 {
        0 => Some(Instruction::Store { from: register, address, width, ordering }),
        1 => Some(Instruction::Load { to: register, address, width, ordering, is_exclusive: false }),
        _ => None,
    }
}

const fn size(word: u32) -> Width {
    match word >> 30 {
        0 => Width::Byte,
        1 => Width::Half,
        2 => Width::Word,
        _ => Width::Double,
    }
}

fn register_offset(word: u32) -> Option<Operand> {
    let extend = match word >> 13 & 7 {
        2 => Some(false),
        6 => Some(true),
        3 | 7 => None,
        _ => return None,
    };
    let shift = if word >> 12 & 1 == 1 { (word >> 30) as u8 } else { 0 };
    Some(Operand::Register { from: general(word, 16), extend, shift })
}

fn pair(word: u32) -> Option<Instruction> {
    let width = width(word);
    let write_back = match word >> 23 & 3 {
        0 | 2 => WriteBack::No,
        1 => WriteBack::After,
        _ => WriteBack::Before,
    };
    let offset = Operand::Immediate((signed(word, 15, 7) * width.bytes() as i64) as u64);
    let address = Address { base: general_or_stack(word, 5), offset, write_back };
    let (first, second) = (general(word, 0), general(word, 10));
    Some(match word >> 22 & 1 {
        0 => Instruction::StorePair { first, second, address, width },
        _ => Instruction::LoadPair { first, second, address, width },
    })
}

const fn plain(word: u32) -> Address {
    Address { base: general_or_stack(word, 5), offset: Operand::Immediate(0), write_back: WriteBack::No }
}

/// LDXR, STXR, LDAR, STLR, CAS.
fn ordered(word: u32) -> Option<Instruction> {
    let (address, width) = (plain(word), size(word));
    let (register, other) = (general(word, 0), general(word, 16));
    let (is_load, is_ordered) = (word >> 22 & 1 == 1, word >> 15 & 1 == 1);
    if word >> 10 & 31 != 31 {
        return None;
    }
    let acquire = Ordering { is_acquire: is_ordered, is_release: false };
    let release = Ordering { is_acquire: false, is_release: is_ordered };
    match (word >> 23 & 1 == 1, word >> 21 & 1 == 1) {
        (false, false) if is_load && other == General::ZERO => {
            Some(Instruction::Load { to: register, address, width, ordering: acquire, is_exclusive: true })
        }
        (false, false) if !is_load => {
            Some(Instruction::StoreExclusive { status: other, from: register, address, width, ordering: release })
        }
        (true, false) if is_ordered && other == General::ZERO => Some(if is_load {
            Instruction::Load { to: register, address, width, ordering: acquire, is_exclusive: false }
        } else {
            Instruction::Store { from: register, address, width, ordering: release }
        }),
        (true, true) => {
            let ordering = Ordering { is_acquire: is_load, is_release: is_ordered };
            Some(Instruction::CompareAndSwap { expected: other, new: register, address, width, ordering })
        }
        _ => None,
    }
}

/// SWP, LDADD and their kin; LDAPR.
fn atomic(word: u32) -> Option<Instruction> {
    let (address, width, to) = (plain(word), size(word), general(word, 0));
    let ordering = Ordering { is_acquire: word >> 23 & 1 == 1, is_release: word >> 22 & 1 == 1 };
    if is(word, 0x3fff_fc00, 0x38bf_c000) {
        return Some(Instruction::Load { to, address, width, ordering, is_exclusive: false });
    }
    let operation = match word >> 12 & 15 {
        0 => Operation::Add,
        1 => Operation::Clear,
        2 => Operation::ExclusiveOr,
        3 => Operation::Or,
        8 => Operation::Second,
        _ => return None,
    };
    Some(Instruction::Atomic { operation, with: general(word, 16), to, address, width, ordering })
}
