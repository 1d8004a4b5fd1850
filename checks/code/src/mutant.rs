//! Mutants of machine code: each barrier, TLBI and cache operation left out, and each weakened in every way there is.

use a64::decode::{NOP, barriers, decode, encode_barrier};
use a64::instruction::{Cache, Instruction};
use machine::barrier::{Accesses, Barrier};
use machine::tlbi::Opcode;

/// One word in place of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mutant {
    /// The word.
    pub word: u32,
    /// What it was.
    pub original: String,
    /// What it is now.
    pub weakened: String,
}

/// What an instruction that maintains something is called; `None` for every other instruction.
pub fn name(instruction: &Instruction) -> Option<String> {
    match instruction {
        Instruction::Barrier(barrier) => Some(barrier.to_string()),
        Instruction::Tlbi { opcode, .. } => opcode.decode().map(|operation| operation.to_string()),
        Instruction::Cache { operation, .. } => Some(operation.to_string()),
        _ => None,
    }
}

/// Every mutant of `word`; none if it maintains nothing.
pub fn mutants(word: u32) -> Vec<Mutant> {
    let Some(instruction) = decode(word, 0) else { return Vec::new() };
    let Some(original) = name(&instruction) else { return Vec::new() };
    let weaker = match instruction {
        Instruction::Barrier(barrier) => weaker_barriers(barrier).into_iter().map(encode_barrier).collect(),
        Instruction::Tlbi { opcode, .. } => weaker_tlbis(opcode, word),
        Instruction::Cache { operation, .. } => weaker_cache(operation, word),
        _ => Vec::new(),
    };
    let named = |word| match decode(word, 0).as_ref().and_then(name) {
        Some(name) => name,
        None => "nothing".to_owned(),
    };
    let all = std::iter::once(NOP).chain(weaker);
    all.map(|word| Mutant { word, original: original.clone(), weakened: named(word) }).collect()
}

/// Barriers that do a part of what `barrier` does.
fn weaker_barriers(barrier: Barrier) -> Vec<Barrier> {
    let parts = |barrier| match barrier {
        Barrier::Isb => None,
        Barrier::Dsb { domain, accesses, is_nxs } => Some((true, domain, accesses, is_nxs)),
        Barrier::Dmb { domain, accesses } => Some((false, domain, accesses, false)),
    };
    let Some((is_dsb, domain, accesses, _)) = parts(barrier) else { return Vec::new() };
    let is_weaker = |other: &Barrier| {
        let Some((other_is_dsb, narrower, fewer, is_nxs)) = parts(*other) else { return false };
        match is_dsb == other_is_dsb && !is_nxs {
            true => narrower <= domain && (accesses == Accesses::All || fewer == accesses),
            // A DMB, or a DSB nXS, in the place of a DSB.
            false => is_dsb && (narrower, fewer) == (domain, accesses),
        }
    };
    barriers().filter(|it| *it != barrier && is_weaker(it)).collect()
}

/// The same scope and register, selecting less: by ASID or by address instead of all, the last level alone, without XS.
fn weaker_tlbis(opcode: Opcode, word: u32) -> Vec<u32> {
    let (op1, crn, crm, op2) = opcode.fields();
    let encode = |crn, crm, op2| (word & !0x000f_ffe0) | (0x8_0000 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5);
    let others = (0..8).filter(|it| *it != op2 && op2 == 0).map(|op2| encode(crn, crm, op2));
    let last_level = (op2 == 1 || op2 == 3).then(|| encode(crn, crm, op2 + 4));
    let local = (crm == 3 || crm == 1).then(|| encode(crn, 7, op2));
    let without_xs = (crn == 8).then(|| encode(9, crm, op2));
    let all = others.chain(last_level).chain(local).chain(without_xs);
    all.filter(|word| matches!(decode(*word, 0), Some(Instruction::Tlbi { .. }))).collect()
}

/// A part of what a cache operation does: for its neighbours' encodings the operand is the same.
fn weaker_cache(operation: Cache, word: u32) -> Vec<u32> {
    let sys = |op1: u32, crm: u32| word & 0xffff_001f & !0x7_0000 | op1 << 16 | 7 << 12 | crm << 8 | 1 << 5;
    match operation {
        Cache::CleanAndInvalidate => vec![sys(3, 10), sys(0, 6)],
        Cache::Clean => vec![sys(3, 11)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weakened(word: u32) -> Vec<String> {
        mutants(word).into_iter().map(|it| it.weakened).collect()
    }

    #[test]
    fn every_part_of_what_an_instruction_does_is_a_mutant() {
        assert_eq!(weakened(0xd503_3fdf), ["nothing"], "ISB");
        let nsh = ["nothing", "DSB NSHLD", "DSB NSHnXS", "DSB NSHST", "DMB NSH"];
        assert_eq!(weakened(0xd503_379f), nsh, "DSB NSH");
        assert_eq!(weakened(0xd503_3f9f).len(), 14, "DSB SY");
        let all = ["VAE1", "ASIDE1", "VAAE1", "VALE1", "VAALE1", "VMALLE1nXS"].map(|it| format!("TLBI {it}"));
        assert_eq!(weakened(0xd508_871f)[1..], all, "TLBI VMALLE1");
        assert_eq!(weakened(0xd508_8327), ["nothing", "TLBI VALE1IS", "TLBI VAE1", "TLBI VAE1ISnXS"], "TLBI VAE1IS");
        assert_eq!(weakened(0xd50b_7e20), ["nothing", "DC CVAC", "DC IVAC"], "DC CIVAC");
        assert_eq!(weakened(0xd503_3abf), ["nothing", "DMB NSHST"], "DMB ISHST");
        assert_eq!(weakened(0xd538_1000), [""; 0], "MRS");
    }
}
