//! Machine code to instructions: what the tests in machine code use, and the branches around it. (DDI 0487, C4.1)

use machine::barrier::{Accesses, Barrier, Domain};
use machine::event::Level;
use machine::tlbi::Opcode;

use crate::instruction::{Address, General, Instruction, Operand, Operation, Ordering, When, Width};

/// Decodes the `word` at address `place`, or `None` if it is no instruction that is known here.
pub fn decode(word: u32, place: u64) -> Option<Instruction> {
    match word {
        0xd503_201f => return Some(Instruction::Nothing),
        0xd69f_03e0 => return Some(Instruction::Return),
        _ => {}
    }
    let is = |mask: u32, value: u32| word & mask == value;
    let width = if word >> 31 == 1 { Width::Double } else { Width::Word };
    if is(0xffff_f01f, 0xd503_301f) {
        return barrier(word).map(Instruction::Barrier);
    }
    if is(0xbf20_0c00, 0xb820_0800) || is(0xbf00_0000, 0xb900_0000) {
        return memory(word);
    }
    if is(0x7f80_0000, 0x5280_0000) {
        let right = Operand::Immediate(u64::from(word >> 5 & 0xffff) << (16 * (word >> 21 & 3)));
        let (operation, left) = (Operation::Second, General::ZERO);
        return Some(Instruction::Compute { operation, to: general(word), left, right, width, sets_flags: false });
    }
    if is(0xfc00_0000, 0x1400_0000) {
        return Some(Instruction::Branch { when: When::Always, target: target(place, word << 6, 6) });
    }
    if is(0x7e00_0000, 0x3400_0000) {
        let tested = general(word);
        let when = if word >> 24 & 1 == 0 { When::Zero(tested, width) } else { When::NotZero(tested, width) };
        return Some(Instruction::Branch { when, target: target(place, (word >> 5) << 13, 13) });
    }
    let number = (word >> 5) as u16;
    if is(0xffe0_001f, 0xd400_0001) {
        return Some(Instruction::Call { level: Level::El1, number });
    }
    if is(0xffe0_001f, 0xd400_0002) {
        return Some(Instruction::Call { level: Level::El2, number });
    }
    let opcode = Opcode::from_instruction(word).filter(|opcode| opcode.decode().is_some())?;
    Some(Instruction::Tlbi { opcode, operand: general(word) })
}

/// The register in bits 4:0.
const fn general(word: u32) -> General {
    General((word & 31) as u8)
}

/// The address of a branch whose offset, in instructions, has been shifted to the top of `offset`.
const fn target(place: u64, offset: u32, shift: u32) -> u64 {
    place.wrapping_add_signed(((offset as i32 >> shift) as i64) * 4)
}

fn barrier(word: u32) -> Option<Barrier> {
    let domain = match word >> 10 & 3 {
        0 => Domain::Outer,
        1 => Domain::NonShareable,
        2 => Domain::Inner,
        _ => Domain::System,
    };
    let accesses = match word >> 8 & 3 {
        1 => Some(Accesses::Loads),
        2 => Some(Accesses::Stores),
        3 => Some(Accesses::All),
        _ => None,
    };
    match word >> 5 & 7 {
        4 => Some(Barrier::Dsb { domain, accesses: accesses?, is_nxs: false }),
        5 => Some(Barrier::Dmb { domain, accesses: accesses? }),
        6 => Some(Barrier::Isb),
        _ => None,
    }
}

/// LDR and STR of 32 and 64 bits, with a register or an unsigned number as offset.
fn memory(word: u32) -> Option<Instruction> {
    let (width, scale) = if word >> 30 == 3 { (Width::Double, 3) } else { (Width::Word, 2) };
    let base = General((word >> 5 & 31) as u8);
    let offset = if word >> 24 & 1 == 1 {
        Operand::Immediate(u64::from(word >> 10 & 0xfff) << scale)
    } else {
        let extend = match word >> 13 & 7 {
            2 => Some(false),
            6 => Some(true),
            3 | 7 => None,
            _ => return None,
        };
        let shift = if word >> 12 & 1 == 1 { scale } else { 0 };
        Operand::Register { from: General((word >> 16 & 31) as u8), extend, shift }
    };
    let (address, ordering) = (Address { base, offset }, Ordering::default());
    match word >> 22 & 3 {
        0 => Some(Instruction::Store { from: general(word), address, width, ordering }),
        1 => Some(Instruction::Load { to: general(word), address, width, ordering, is_exclusive: false }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembly::assemble;

    /// Each encoding beside its text, both at 0x1000; `1f` is 8 bytes on.
    #[test]
    fn machine_code_is_what_its_assembly_is() {
        for (word, text) in [
            (0xf860_6825, "LDR X5,[X1,X0]"),
            (0xf822_6904, "STR X4,[X8,X2]"),
            (0xf940_0020, "LDR X0,[X1]"),
            (0xf940_0420, "LDR X0,[X1,#8]"),
            (0xb900_0062, "STR W2,[X3]"),
            (0xb9400462, "LDR W2,[X3,#4]"),
            (0xd503_3b9f, "DSB ISH"),
            (0xd503_3a9f, "DSB ISHST"),
            (0xd503_3f9f, "DSB SY"),
            (0xd503_379f, "DSB NSH"),
            (0xd503_3fbf, "DMB SY"),
            (0xd503_39bf, "DMB ISHLD"),
            (0xd503_3fdf, "ISB"),
            (0xd508_8327, "TLBI VAE1IS,X7"),
            (0xd508_831f, "TLBI VMALLE1IS"),
            (0xd280_0021, "MOV X1,#1"),
            (0x5280_0042, "MOV W2,#2"),
            (0x1400_0002, "B 1f"),
            (0xb400_0040, "CBZ X0,1f"),
            (0x3500_0040, "CBNZ W0,1f"),
            (0xd400_0001, "SVC #0"),
            (0xd400_0022, "HVC #1"),
            (0xd69f_03e0, "ERET"),
            (0xd503_201f, "NOP"),
        ] {
            let code = assemble(0x1000, &[(1, text), (2, "NOP"), (3, "1: NOP")]).expect(text);
            assert_eq!(decode(word, 0x1000), Some(code.instructions[&0x1000]), "{word:#x} {text}");
        }
        // Backwards by one instruction; and words that are none of these.
        assert_eq!(decode(0x17ff_ffff, 0x1000), Some(Instruction::Branch { when: When::Always, target: 0xffc }));
        for word in [0, !0, 0xd503_309f, 0xd508_0000, 0x3860_6825] {
            assert_eq!(decode(word, 0), None, "{word:#x}");
        }
    }
}
