//! What a CPU has beside the machine's registers, and the instructions that use nothing else.

use std::collections::BTreeMap;

use machine::event::Level;

use machine::syndrome::FaultKind;

use crate::instruction::{Flag, General, Instruction, Operand, Operation, StateField, When, Width};
use crate::registers::System;

/// Why a CPU took a synchronous exception.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// An access that is not translated, or not permitted.
    Access(FaultKind),
    /// SVC.
    Call,
    /// An instruction that is undefined.
    Undefined,
}

/// An exception that a CPU took.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Taken {
    /// Address of the instruction.
    pub place: u64,
    /// Input address of the access, if there was one.
    pub address: Option<u64>,
    /// Why.
    pub cause: Cause,
}

/// What happens at an access that faults, an SVC and an undefined instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnFault {
    /// An exception to the vectors in VBAR.
    Vectors,
    /// An exception to EL1, whose handler is at this address; ERET returns.
    Handler(u64),
    /// The thread ends.
    End,
    /// The thread goes on with the next instruction.
    Skip,
    /// Something mends what it can and returns: the instruction is executed again.
    Retry,
}

/// Negative, zero, carry, overflow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Flags {
    n: bool,
    z: bool,
    c: bool,
    v: bool,
}

/// A CPU.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Core {
    general: [u64; 31],
    place: u64,
    flags: Flags,
    system: BTreeMap<System, u64>,
    pub(super) level: Level,
    pub(super) has_own_stack: bool,
    /// PSTATE.DAIF.
    masks: u8,
    pub(super) on_fault: OnFault,
    /// Physical address and value of the last exclusive load.
    pub(super) exclusive: Option<u64>,
    taken: Vec<Taken>,
    pub(super) has_ended: bool,
}

impl Core {
    /// A CPU whose first instruction is at `entry`, with its own stack pointer; every other register is zero.
    pub fn new(entry: u64, level: Level, on_fault: OnFault) -> Self {
        Self {
            general: [0; 31],
            place: entry,
            flags: Flags::default(),
            system: BTreeMap::new(),
            level,
            has_own_stack: true,
            masks: 0,
            on_fault,
            exclusive: None,
            taken: Vec::new(),
            has_ended: false,
        }
    }

    /// The value of a general-purpose register, or of the stack pointer.
    pub fn general(&self, register: General) -> u64 {
        match register {
            General::STACK => self.system(System::Stack(self.stack_level())),
            _ => self.general.get(usize::from(register.0)).copied().unwrap_or(0),
        }
    }

    /// Sets a general-purpose register, or the stack pointer.
    pub fn set_general(&mut self, register: General, width: Width, value: u64) {
        if register == General::STACK {
            self.set_system(System::Stack(self.stack_level()), value & width.mask());
        } else if let Some(place) = self.general.get_mut(usize::from(register.0)) {
            *place = value & width.mask();
        }
    }

    /// Whose stack pointer SP is.
    fn stack_level(&self) -> Level {
        if self.has_own_stack { self.level } else { Level::El0 }
    }

    /// Sets PSTATE.SP: whether SP is the stack pointer of the exception level or SP_EL0.
    pub fn select_stack(&mut self, is_own: bool) {
        self.has_own_stack = is_own;
    }

    /// The exception level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The program counter.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// The value of a system register that is not the machine's.
    pub fn system(&self, register: System) -> u64 {
        match register {
            System::CurrentLevel => level_bits(self.level),
            System::Masks => u64::from(self.masks) << 6,
            System::StackSelect => u64::from(self.has_own_stack),
            _ => self.system.get(&register).copied().unwrap_or(0),
        }
    }

    /// False for a register that nobody has written: what it holds is not known.
    pub fn knows(&self, register: System) -> bool {
        let is_state = matches!(register, System::CurrentLevel | System::Masks | System::StackSelect);
        is_state || matches!(register, System::Translation(_)) || self.system.contains_key(&register)
    }

    /// Sets a system register that is not the machine's.
    pub fn set_system(&mut self, register: System, value: u64) {
        match register {
            System::Masks => self.masks = (value >> 6 & 15) as u8,
            System::StackSelect => self.has_own_stack = value & 1 == 1,
            _ => {
                self.system.insert(register, value);
            }
        }
    }

    /// Exceptions that it took, each once, in order; an HVC is none of them.
    pub fn taken(&self) -> &[Taken] {
        &self.taken
    }

    /// The next instruction is at `place`.
    pub fn go_to(&mut self, place: u64) {
        self.place = place;
    }

    pub(super) fn go_on(&mut self) {
        self.place += 4;
    }

    pub(super) fn note(&mut self, taken: Taken) {
        if let Err(at) = self.taken.binary_search(&taken) {
            self.taken.insert(at, taken);
        }
    }

    /// An exception masks all others.
    pub(super) fn mask_all(&mut self) {
        self.masks = 15;
    }

    /// PSTATE as SPSR keeps it: N, Z, C, V, D, A, I, F, M\[3:0\].
    pub(super) fn state_bits(&self) -> u64 {
        let Flags { n, z, c, v } = self.flags;
        let level = level_bits(self.level) | u64::from(self.masks) << 6;
        let flags = u64::from(n) << 31 | u64::from(z) << 30 | u64::from(c) << 29 | u64::from(v) << 28;
        flags | level | u64::from(self.has_own_stack && self.level != Level::El0)
    }

    pub(super) fn set_state_bits(&mut self, bits: u64) {
        let bit = |number: u32| bits >> number & 1 == 1;
        self.flags = Flags { n: bit(31), z: bit(30), c: bit(29), v: bit(28) };
        self.level = match bits >> 2 & 3 {
            0 => Level::El0,
            1 => Level::El1,
            _ => Level::El2,
        };
        self.has_own_stack = bit(0);
        self.masks = (bits >> 6 & 15) as u8;
    }

    pub(super) fn operand(&self, operand: &Operand) -> u64 {
        match *operand {
            Operand::Immediate(value) => value,
            Operand::Register { from, extend, shift } => {
                let value = self.general(from);
                let extended = match extend {
                    None => value,
                    Some(false) => value & 0xffff_ffff,
                    Some(true) => i64::from(value as u32 as i32) as u64,
                };
                extended << shift
            }
        }
    }

    /// Executes `instruction` if it concerns nothing but this CPU's registers.
    pub(super) fn execute(&mut self, instruction: &Instruction) -> bool {
        match *instruction {
            Instruction::Nothing | Instruction::Wait | Instruction::Wake | Instruction::Cache { .. } => {}
            Instruction::Compute { operation, to, left, right, width, sets_flags } => {
                let (left, right) = (self.general(left), self.operand(&right));
                let value = compute(operation, left, right, width);
                if sets_flags {
                    self.flags = flags(operation, left, right, value, width);
                }
                self.set_general(to, width, value);
            }
            Instruction::Select { to, yes, no, adds, flag, width } => {
                let value = if self.has(flag) { self.general(yes) } else { self.general(no).wrapping_add(adds) };
                self.set_general(to, width, value);
            }
            Instruction::Insert { to, value, shift, width } => {
                let kept = self.general(to) & !(0xffff << shift);
                self.set_general(to, width, kept | u64::from(value) << shift);
            }
            Instruction::Extract { to, from, low, bits, at, width, keeps } => {
                let field = self.general(from) & width.mask();
                let mask = u64::MAX >> (64 - u32::from(bits));
                let kept = if keeps { self.general(to) & !(mask << at) } else { 0 };
                self.set_general(to, width, kept | (field >> low & mask) << at);
            }
            Instruction::SetState { field, value } => self.set_state(field, value),
            Instruction::BranchWithLink { target } => {
                self.link();
                self.place = target;
                return true;
            }
            Instruction::BranchTo { target, links } => {
                let target = self.general(target);
                if links {
                    self.link();
                }
                self.place = target;
                return true;
            }
            Instruction::Locate { to, address } => self.set_general(to, Width::Double, address),
            Instruction::Branch { when, target } => {
                if self.goes(when) {
                    self.place = target;
                    return true;
                }
            }
            _ => return false,
        }
        self.go_on();
        true
    }

    fn link(&mut self) {
        self.set_general(General::LINK, Width::Double, self.place + 4);
    }

    fn set_state(&mut self, field: StateField, value: u8) {
        match field {
            StateField::StackSelect => self.has_own_stack = value & 1 == 1,
            StateField::Mask => self.masks |= value & 15,
            StateField::Unmask => self.masks &= !value,
        }
    }

    fn goes(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::Flag(flag) => self.has(flag),
            When::Zero(register, width) => self.general(register) & width.mask() == 0,
            When::NotZero(register, width) => self.general(register) & width.mask() != 0,
            When::Set(register, bit) => self.general(register) >> bit & 1 == 1,
            When::Unset(register, bit) => self.general(register) >> bit & 1 == 0,
        }
    }

    fn has(&self, flag: Flag) -> bool {
        let Flags { n, z, c, v } = self.flags;
        match flag {
            Flag::Eq => z,
            Flag::Hs => c,
            Flag::Mi => n,
            Flag::Hi => c && !z,
            Flag::Ge => n == v,
            Flag::Gt => n == v && !z,
            Flag::Ne | Flag::Lo | Flag::Pl | Flag::Ls | Flag::Lt | Flag::Le => !self.has(flag.inverted()),
        }
    }
}

/// M\[3:2\] of PSTATE, as CurrentEL shows it.
const fn level_bits(level: Level) -> u64 {
    match level {
        Level::El0 => 0,
        Level::El1 => 4,
        Level::El2 => 8,
        Level::El3 => 12,
    }
}

/// What `operation` makes of two values.
pub(super) fn compute(operation: Operation, left: u64, right: u64, width: Width) -> u64 {
    let bits = width.bytes() * 8;
    let value = match operation {
        Operation::Add => left.wrapping_add(right),
        Operation::Subtract => left.wrapping_sub(right),
        Operation::And => left & right,
        Operation::Or => left | right,
        Operation::ExclusiveOr => left ^ right,
        Operation::Clear => left & !right,
        Operation::ShiftLeft => left << (right % bits),
        Operation::ShiftRight => (left & width.mask()) >> (right % bits),
        Operation::Second => right,
    };
    value & width.mask()
}

fn flags(operation: Operation, left: u64, right: u64, value: u64, width: Width) -> Flags {
    let top = width.bytes() * 8 - 1;
    let sign = |value: u64| value >> top & 1 == 1;
    let (left_in, right_in) = (left & width.mask(), right & width.mask());
    let (c, v) = match operation {
        Operation::Add => (value < left_in, sign(left) == sign(right) && sign(left) != sign(value)),
        Operation::Subtract => (left_in >= right_in, sign(left) != sign(right) && sign(left) != sign(value)),
        _ => (false, false),
    };
    Flags { n: sign(value), z: value == 0, c, v }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_set_the_flags_of_the_manual() {
        for (left, right, width, expected) in [
            (5, 5, Width::Double, [Flag::Eq, Flag::Hs, Flag::Pl, Flag::Ge]),
            (1, 2, Width::Double, [Flag::Ne, Flag::Lo, Flag::Mi, Flag::Lt]),
            (0x1_0000_0000, 0, Width::Word, [Flag::Eq, Flag::Hs, Flag::Pl, Flag::Le]),
            (0x8000_0000, 1, Width::Word, [Flag::Ne, Flag::Hi, Flag::Pl, Flag::Lt]),
            (1 << 63, 1, Width::Double, [Flag::Ne, Flag::Hi, Flag::Pl, Flag::Lt]),
            (0, !0, Width::Double, [Flag::Ne, Flag::Ls, Flag::Pl, Flag::Gt]),
        ] {
            let value = compute(Operation::Subtract, left, right, width);
            let set = flags(Operation::Subtract, left, right, value, width);
            let core = Core { flags: set, ..Core::new(0, Level::El1, OnFault::End) };
            for flag in expected {
                assert!(core.has(flag), "{left:#x} against {right:#x}: {flag:?}");
                assert!(!core.has(flag.inverted()), "{left:#x} against {right:#x}: not {flag:?}");
            }
            let mut other = Core::new(0, Level::El0, OnFault::End);
            other.set_state_bits(core.state_bits());
            assert_eq!((other.flags, other.level, other.has_own_stack), (core.flags, Level::El1, true));
        }
    }
}
