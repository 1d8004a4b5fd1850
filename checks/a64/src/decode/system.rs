//! Barriers, maintenance, system registers, exceptions, hints. (C4.1.94, C5)

use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Level;
use machine::tlbi::Opcode;

use super::{NOP, general, is};
use crate::instruction::{Cache, Instruction, StateField};
use crate::registers::{Encoding, System};

pub(super) fn system(word: u32) -> Option<Instruction> {
    if word == 0xd69f_03e0 {
        return Some(Instruction::Return);
    }
    if is(word, 0xffff_f01f, NOP) {
        return match word >> 5 & 0x7f {
            0 | 1 => Some(Instruction::Nothing),
            2 | 3 => Some(Instruction::Wait),
            4 | 5 => Some(Instruction::Wake),
            _ => None,
        };
    }
    if is(word, 0xffff_f01f, 0xd503_301f) {
        return barrier(word).map(Instruction::Barrier);
    }
    if is(word, 0xfff8_f01f, 0xd500_401f) {
        let field = match (word >> 16 & 7, word >> 5 & 7) {
            (0, 5) => StateField::StackSelect,
            (3, 6) => StateField::Mask,
            (3, 7) => StateField::Unmask,
            _ => return None,
        };
        return Some(Instruction::SetState { field, value: (word >> 8 & 15) as u8 });
    }
    let (register, number) = (System::encoded(Encoding((word >> 5) as u16)), (word >> 5) as u16);
    match word >> 20 {
        0xd53 => return Some(Instruction::ReadSystem { to: general(word, 0), register }),
        0xd51 => return Some(Instruction::WriteSystem { register, from: general(word, 0) }),
        _ => {}
    }
    match word & 0xffe0_001f {
        0xd400_0001 => return Some(Instruction::Call { level: Level::El1, number }),
        0xd400_0002 => return Some(Instruction::Call { level: Level::El2, number }),
        0xd400_0003 => return Some(Instruction::MonitorCall { number }),
        0xd420_0000 => return Some(Instruction::Break { number }),
        _ => {}
    }
    let opcode = Opcode::from_instruction(word)?;
    let operand = general(word, 0);
    if let (0, 7, 8, op2 @ (0 | 1)) = opcode.fields() {
        return Some(Instruction::Translate { level: Level::El1, is_write: op2 == 1, address: operand });
    }
    match cache(opcode) {
        Some(operation) => Some(Instruction::Cache { operation, operand }),
        None => opcode.decode().map(|_| Instruction::Tlbi { opcode, operand }),
    }
}

fn cache(opcode: Opcode) -> Option<Cache> {
    Some(match opcode.fields() {
        (0, 7, 6, 1) => Cache::Invalidate,
        (3, 7, 10, 1) => Cache::Clean,
        (3, 7, 11, 1) => Cache::CleanToUnification,
        (3, 7, 14, 1) => Cache::CleanAndInvalidate,
        (3, 7, 5, 1) => Cache::InvalidateInstructions,
        (0, 7, 5, 0) => Cache::InvalidateAllInstructions,
        (0, 7, 1, 0) => Cache::InvalidateAllInstructionsInner,
        _ => return None,
    })
}

const DOMAINS: [Domain; 4] = [Domain::Outer, Domain::NonShareable, Domain::Inner, Domain::System];
/// By the low bits of CRm; 0 stands for other instructions.
const ACCESSES: [Accesses; 3] = [Accesses::Loads, Accesses::Stores, Accesses::All];

fn barrier(word: u32) -> Option<Barrier> {
    let domain = DOMAINS[(word >> 10 & 3) as usize];
    let kind = word >> 8 & 3;
    let accesses = kind.checked_sub(1).map(|kind| ACCESSES[kind as usize]);
    match word >> 5 & 7 {
        1 if kind == 2 => Some(Barrier::Dsb { domain, accesses: Accesses::All, is_nxs: true }),
        4 => Some(Barrier::Dsb { domain, accesses: accesses?, is_nxs: false }),
        5 => Some(Barrier::Dmb { domain, accesses: accesses? }),
        6 => Some(Barrier::Isb),
        _ => None,
    }
}

/// Every barrier that has machine code; an ISB, which has it sixteen times, once.
pub fn barriers() -> impl Iterator<Item = Barrier> {
    let words = (0..1 << 7).map(|bits: u32| 0xd503_301f | bits << 5);
    words.filter_map(barrier).filter(|it| *it != Barrier::Isb).chain([Barrier::Isb])
}

/// The machine code of a barrier; DSB nXS has one for loads and stores alone.
pub fn encode_barrier(barrier: Barrier) -> u32 {
    let place = |domain| DOMAINS.iter().position(|it| *it == domain).unwrap_or(0) as u32;
    let kind = |accesses| ACCESSES.iter().position(|it| *it == accesses).unwrap_or(0) as u32 + 1;
    let encode = |domain, kind: u32, op2: u32| 0xd503_301f | place(domain) << 10 | kind << 8 | op2 << 5;
    match barrier {
        Barrier::Isb => encode(Domain::System, 3, 6),
        Barrier::Dmb { domain, accesses } => encode(domain, kind(accesses), 5),
        Barrier::Dsb { domain, is_nxs: true, .. } => encode(domain, 2, 1),
        Barrier::Dsb { domain, accesses, is_nxs: false } => encode(domain, kind(accesses), 4),
    }
}
