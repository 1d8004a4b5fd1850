//! Every encoding of the system instructions and registers, one after the other: op0, op1, CRn, CRm, op2, written and read.
//!
//! What this program would lose itself by is written with what it reads as.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::guest::{execute, read_exceptions};

use crate::attempts::Attempts;

/// Encodings there are: bits 21:5 of the instruction.
const COUNT: u64 = 1 << 17;
/// How many encodings pass for each that is tried; 0 for none.
pub(crate) static STEP: AtomicU64 = AtomicU64::new(0);
/// How many were tried, and how many of them were an exception.
pub(crate) static TRIED: AtomicU64 = AtomicU64::new(0);
pub(crate) static REFUSED: AtomicU64 = AtomicU64::new(0);

const READ: u32 = 1 << 21;
const XZR: u32 = 31;

/// What becomes of an encoding.
enum Use {
    /// It is run with an address or a number in x0.
    Hostile,
    /// It is run with XZR: an instruction that has no operand.
    Alone,
    /// It is written with what it reads as, or with 0 where it cannot be read.
    Same,
    /// It is left out: this CPU would not go on, whoever is beneath.
    Left,
}

/// Of the instruction without its register.
fn choose(instruction: u32) -> Use {
    let field = |low: u32, bits: u32| instruction >> low & ((1 << bits) - 1);
    let (op0, op1, crn, crm, op2) = (field(19, 2), field(16, 3), field(12, 4), field(8, 4), field(5, 3));
    let is_write = instruction & READ == 0;
    match (op0, op1, crn, crm, op2) {
        // WFE and WFI: nothing may come that ends them.
        (0, 3, 2, 0, 2 | 3) => Use::Left,
        // SPSel: the stack would be another.
        (0, 0, 4, _, 5) => Use::Left,
        (0, ..) => Use::Alone,
        (1, ..) => Use::Hostile,
        // MDSCR_EL1, by which it would step through itself.
        (2, _, 0, ..) if is_write => Use::Same,
        (2, ..) => Use::Hostile,
        // SCTLR_EL1 and its kin, translation, PSTATE, SPSR and ELR, VBAR_EL1, TPIDR_EL1.
        (_, _, 1 | 2 | 4 | 12 | 13, ..) if is_write => Use::Same,
        // Profiling and tracing, which write to memory.
        (_, _, 9, 10 | 11, _) if is_write => Use::Same,
        _ => Use::Hostile,
    }
}

/// Tries those that no other CPU has taken.
pub(crate) fn try_share(attempts: &mut Attempts, cpu: usize) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let step = STEP.load(Ordering::Relaxed);
    if step == 0 {
        return;
    }
    loop {
        let encoding = NEXT.fetch_add(step, Ordering::Relaxed);
        if encoding >= COUNT {
            return;
        }
        let before = read_exceptions();
        if try_one(attempts, cpu, 0xd500_0000 | (encoding as u32) << 5) {
            TRIED.fetch_add(1, Ordering::Relaxed);
            REFUSED.fetch_add((read_exceptions() != before).into(), Ordering::Relaxed);
        }
    }
}

/// Whether it was run.
fn try_one(attempts: &mut Attempts, cpu: usize, instruction: u32) -> bool {
    let (instruction, value) = match choose(instruction) {
        Use::Hostile => (instruction, attempts.value()),
        Use::Alone => (instruction | XZR, 0),
        // SAFETY: reading a register changes nothing that this program needs; where it faults x0 stays 0.
        Use::Same => (instruction, unsafe { execute(cpu, instruction | READ, [0; 4]) }),
        Use::Left => return false,
    };
    // SAFETY: what would change this program keeps its value; maintenance by address, zeroing too, is of memory that is not
    // its own, or of one random address in 2^64.
    unsafe { execute(cpu, instruction, [value, 0, 0, 0]) };
    true
}
