use std::collections::BTreeSet;

use machine::barrier::Barrier;
use machine::event::Level;

use super::*;
use crate::instruction::{Address, Cache, Operand, Operation, Ordering, StateField, WriteBack};
use crate::registers::System;

const X: fn(u8) -> General = General;

const fn at(base: u8, offset: i64, write_back: WriteBack) -> Address {
    let base = if base == 31 { General::STACK } else { General(base) };
    Address { base, offset: Operand::Immediate(offset as u64), write_back }
}

const fn plain(from: u8) -> Operand {
    Operand::Register { from: General(from), extend: None, shift: 0 }
}

fn compute(operation: Operation, to: General, left: General, right: Operand) -> Instruction {
    Instruction::Compute { operation, to, left, right, width: Width::Double, sets_flags: false }
}

fn compare(operation: Operation, left: u8, right: Operand, width: Width) -> Instruction {
    Instruction::Compute { operation, to: General::ZERO, left: X(left), right, width, sets_flags: true }
}

/// Words as an assembler makes them, at 0x1000: what no text of a litmus test says.
#[test]
fn words_are_what_an_assembler_means_by_them() {
    use Instruction as I;
    let (double, word) = (Width::Double, Width::Word);
    let imm = Operand::Immediate;
    for (code, text, expected) in [
        (0x1000_0041, "adr x1, 0x1008", I::Locate { to: X(1), address: 0x1008 }),
        (0xb0ff_ffe3, "adrp x3, -0x3000", I::Locate { to: X(3), address: 0_u64.wrapping_sub(0x2000) }),
        (0x913f_fc20, "add x0, x1, #0xfff", compute(Operation::Add, X(0), X(1), imm(0xfff))),
        (0x9140_43ff, "add sp, sp, #0x10, lsl 12", {
            compute(Operation::Add, General::STACK, General::STACK, imm(0x1_0000))
        }),
        (0xf100_041f, "cmp x0, #1", compare(Operation::Subtract, 0, imm(1), double)),
        (0x7110_0cdf, "cmp w6, #1027", compare(Operation::Subtract, 6, imm(1027), word)),
        (0xb100_04bf, "cmn x5, #1", compare(Operation::Add, 5, imm(1), double)),
        (0xeb04_007f, "cmp x3, x4", compare(Operation::Subtract, 3, plain(4), double)),
        (0xf275_101f, "tst x0, #0xf800", compare(Operation::And, 0, imm(0xf800), double)),
        (0x927f_f8a5, "bic x5, x5, #1", compute(Operation::And, X(5), X(5), imm(!1))),
        (0xaa02_0294, "orr x20, x20, x2", compute(Operation::Or, X(20), X(20), plain(2))),
        (0x8a21_0294, "bic x20, x20, x1", compute(Operation::Clear, X(20), X(20), plain(1))),
        (0xaa1f_03fd, "mov x29, xzr", compute(Operation::Second, X(29), General::ZERO, plain(31))),
        (0x9ac1_2684, "lsr x4, x20, x1", compute(Operation::ShiftRight, X(4), X(20), plain(1))),
        (0x9ac0_2060, "lsl x0, x3, x0", compute(Operation::ShiftLeft, X(0), X(3), plain(0))),
        (0x9280_0000, "mov x0, #-1", compute(Operation::Second, X(0), General::ZERO, imm(!0))),
        (0xf2a6_1a00, "movk x0, #0x30d0, lsl #16", I::Insert { to: X(0), value: 0x30d0, shift: 16, width: double }),
        (0x9400_0002, "bl 0x1008", I::BranchWithLink { target: 0x1008 }),
        (0xd65f_03c0, "ret", I::BranchTo { target: General::LINK, links: false }),
        (0xd61f_0260, "br x19", I::BranchTo { target: X(19), links: false }),
        (0xd63f_0020, "blr x1", I::BranchTo { target: X(1), links: true }),
        (0x3607_ffe0, "tbz w0, #0, 0xffc", I::Branch { when: When::Unset(X(0), 0), target: 0xffc }),
        (0xb700_0041, "tbnz x1, #32, 0x1008", I::Branch { when: When::Set(X(1), 32), target: 0x1008 }),
        (0x54ff_ffe3, "b.lo 0xffc", I::Branch { when: When::Flag(Flag::Lo), target: 0xffc }),
        (0x5800_0042, "ldr x2, 0x1008", I::LoadLiteral { to: X(2), place: 0x1008, width: double }),
        (0xa8c1_1865, "ldp x5, x6, [x3], #16", {
            I::LoadPair { first: X(5), second: X(6), address: at(3, 16, WriteBack::After), width: double }
        }),
        (0xa9af_07e0, "stp x0, x1, [sp, #-272]!", {
            I::StorePair { first: X(0), second: X(1), address: at(31, -272, WriteBack::Before), width: double }
        }),
        (0xa901_0fe2, "stp x2, x3, [sp, #16]", {
            I::StorePair { first: X(2), second: X(3), address: at(31, 16, WriteBack::No), width: double }
        }),
        (0xf840_8467, "ldr x7, [x3], #8", {
            let (ordering, address) = (Ordering::default(), at(3, 8, WriteBack::After));
            I::Load { to: X(7), address, width: double, ordering, is_exclusive: false }
        }),
        (0x385f_f041, "ldurb w1, [x2, #-1]", {
            let (ordering, address) = (Ordering::default(), at(2, -1, WriteBack::No));
            I::Load { to: X(1), address, width: Width::Byte, ordering, is_exclusive: false }
        }),
        (0xd503_4fdf, "msr daifset, #0xf", I::SetState { field: StateField::Mask, value: 15 }),
        (0xd500_40bf, "msr spsel, #0", I::SetState { field: StateField::StackSelect, value: 0 }),
        (0xd538_4240, "mrs x0, CurrentEL", I::ReadSystem { to: X(0), register: System::CurrentLevel }),
        (0xd508_751f, "ic iallu", { I::Cache { operation: Cache::InvalidateAllInstructions, operand: General::ZERO } }),
        (0xd508_7620, "dc ivac, x0", I::Cache { operation: Cache::Invalidate, operand: X(0) }),
        (0xd50b_7e20, "dc civac, x0", I::Cache { operation: Cache::CleanAndInvalidate, operand: X(0) }),
        (0xd503_205f, "wfe", I::Wait),
        (0xd503_207f, "wfi", I::Wait),
        (0xd503_20bf, "sevl", I::Wake),
        (0xd400_0003, "smc #0", I::MonitorCall { number: 0 }),
        (0xd420_0020, "brk #1", I::Break { number: 1 }),
    ] {
        assert_eq!(decode(code, 0x1000), Some(expected), "{code:#010x} {text}");
    }
}

#[test]
fn fields_are_inserted_and_addresses_translated() {
    use Instruction as I;
    for (code, text, expected) in [
        (0xd350_4c02, "ubfx x2, x0, #16, #4", {
            I::Extract { to: X(2), from: X(0), low: 16, bits: 4, at: 0, width: Width::Double, keeps: false }
        }),
        (
            0xd35a_fc00,
            "lsr x0, x0, #26",
            I::Extract { to: X(0), from: X(0), low: 26, bits: 38, at: 0, width: Width::Double, keeps: false },
        ),
        (
            0x531c_6c41,
            "lsl w1, w2, #4",
            I::Extract { to: X(1), from: X(2), low: 0, bits: 28, at: 4, width: Width::Word, keeps: false },
        ),
        (0xb340_2c09, "bfxil x9, x0, #0, #12", {
            I::Extract { to: X(9), from: X(0), low: 0, bits: 12, at: 0, width: Width::Double, keeps: true }
        }),
        (0xd508_7800, "at s1e1r, x0", I::Translate { level: Level::El1, is_write: false, address: X(0) }),
        (0xd508_7823, "at s1e1w, x3", I::Translate { level: Level::El1, is_write: true, address: X(3) }),
    ] {
        assert_eq!(decode(code, 0x1000), Some(expected), "{code:#010x} {text}");
    }
}

#[test]
fn words_that_are_not_known_are_no_instructions() {
    for (word, text) in [
        (0, "udf #0"),
        (!0, "nothing"),
        (0xd503_309f, "ssbb"),
        (0xd508_0000, "SYS that is no TLBI"),
        (0xd50b_7420, "dc zva, x0"),
        (0x9b01_7c00, "mul x0, x0, x1"),
        (0x9ac1_0800, "udiv x0, x0, x1"),
        (0x9ac1_2c00, "ror x0, x0, x1"),
        (0x9340_7c20, "sxtw x0, w1"),
        (0xaa22_0020, "orn x0, x1, x2"),
        (0x8b81_0000, "add x0, x0, x1, asr #0 is one, asr #1 is not"),
        (0xb980_0020, "ldrsw x0, [x1]"),
        (0x4e20_1c00, "and v0.16b, v0.16b, v0.16b"),
        (0xd503_233f, "paciasp"),
        (0x12c0_0000, "movn w0, #0, lsl #32"),
    ] {
        let is_known = word == 0x8b81_0000;
        assert_eq!(decode(word, 0).is_some(), is_known, "{word:#010x} {text}");
    }
    assert_eq!(decode(0x8b81_0400, 0), None, "add x0, x0, x1, asr #1");
}

/// The manual counts 5334 constants of 64 bits.
#[test]
fn logical_immediates_are_all_that_the_manual_has() {
    let mut found = BTreeSet::new();
    for bits in 0..1 << 13 {
        if let Some(Instruction::Compute { right: Operand::Immediate(value), .. }) = decode(0x9200_0000 | bits << 10, 0)
        {
            found.insert(value);
        }
    }
    assert_eq!(found.len(), 5334);
    for value in [1, !1, 0xff, 0xf800, 0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 1 << 63 | 1] {
        assert!(found.contains(&value), "{value:#x}");
    }
    assert!(!found.contains(&0) && !found.contains(&!0) && !found.contains(&5));
}

#[test]
fn barriers_are_encoded_as_they_are_decoded() {
    let barriers: Vec<Barrier> = barriers().collect();
    assert_eq!(barriers.len(), 4 * (3 + 3 + 1) + 1, "DSB, DMB and DSB nXS of each domain, and ISB");
    let words: BTreeSet<u32> = barriers.iter().map(|barrier| encode_barrier(*barrier)).collect();
    assert_eq!(words.len(), barriers.len());
    for barrier in barriers {
        assert_eq!(decode(encode_barrier(barrier), 0), Some(Instruction::Barrier(barrier)), "{barrier}");
    }
    assert_eq!(encode_barrier(Barrier::DSB_SY), 0xd503_3f9f);
}
