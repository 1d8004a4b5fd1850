//! The A64 instructions that the tests use, as data: whoever decodes them, from text or from machine code, makes these.

use machine::barrier::Barrier;
use machine::event::Level;
use machine::registers::Register;
use machine::tlbi::Opcode;

/// A general-purpose register, 0 to 30; 31 is the zero register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct General(pub u8);

impl General {
    /// XZR.
    pub const ZERO: Self = Self(31);
}

/// How much of a register or of memory an instruction uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// 32 bits: W registers.
    Word,
    /// 64 bits: X registers.
    Double,
}

impl Width {
    /// The bits that it keeps.
    pub const fn mask(self) -> u64 {
        match self {
            Self::Word => 0xffff_ffff,
            Self::Double => !0,
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Word => 4,
            Self::Double => 8,
        }
    }
}

/// A second operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operand {
    /// A constant.
    Immediate(u64),
    /// A register, sign-extended from 32 bits if that is said, then shifted left.
    Register {
        /// Which.
        from: General,
        /// Its low 32 bits, as a signed (true) or unsigned (false) number; `None` takes all 64.
        extend: Option<bool>,
        /// Shift to the left.
        shift: u8,
    },
}

/// An address: a base and an offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// Base.
    pub base: General,
    /// Offset in bytes.
    pub offset: Operand,
}

/// A condition of the flags.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the manual's condition of that name")]
pub enum Flag {
    Eq,
    Ne,
    Hs,
    Lo,
    Mi,
    Pl,
    Hi,
    Ls,
    Ge,
    Lt,
    Gt,
    Le,
}

impl Flag {
    /// True when the opposite is false.
    #[must_use]
    pub const fn inverted(self) -> Self {
        match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Hs => Self::Lo,
            Self::Lo => Self::Hs,
            Self::Mi => Self::Pl,
            Self::Pl => Self::Mi,
            Self::Hi => Self::Ls,
            Self::Ls => Self::Hi,
            Self::Ge => Self::Lt,
            Self::Lt => Self::Ge,
            Self::Gt => Self::Le,
            Self::Le => Self::Gt,
        }
    }
}

/// What an instruction computes from two operands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// ADD.
    Add,
    /// SUB.
    Subtract,
    /// AND.
    And,
    /// ORR.
    Or,
    /// EOR.
    ExclusiveOr,
    /// BIC.
    Clear,
    /// LSL.
    ShiftLeft,
    /// LSR.
    ShiftRight,
    /// The right operand: MOV, and SWP as an atomic.
    Second,
}

/// When a branch is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum When {
    /// B.
    Always,
    /// B.cond.
    Flag(Flag),
    /// CBZ.
    Zero(General, Width),
    /// CBNZ.
    NotZero(General, Width),
}

/// A system register: of the simulated machine, or one that only exceptions and handlers use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum System {
    /// One that decides how addresses are translated.
    Translation(Register),
    /// ELR_EL1, ELR_EL2.
    Return(Level),
    /// SPSR_EL1, SPSR_EL2.
    SavedState(Level),
    /// ESR_EL1, ESR_EL2.
    Syndrome(Level),
    /// FAR_EL1, FAR_EL2.
    FaultAddress(Level),
    /// VBAR_EL1, VBAR_EL2.
    VectorBase(Level),
    /// HPFAR_EL2.
    FaultIntermediate,
    /// One without any effect here: it can be written and read back. TPIDR_EL0 to TPIDR_EL2.
    Scratch(u8),
}

/// Order of a load or store against others. Explicit accesses are in program order here, so it matters only for what
/// walkers see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ordering {
    /// Load-acquire.
    pub is_acquire: bool,
    /// Store-release.
    pub is_release: bool,
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the fields are those of the encoding")]
pub enum Instruction {
    /// No effect: NOP, and cache maintenance, for memory is always coherent here.
    Nothing,
    /// MOV, ADD, AND, …; CMP writes the zero register.
    Compute { operation: Operation, to: General, left: General, right: Operand, width: Width, sets_flags: bool },
    /// CSEL, and CSINC where `adds` is 1 (CSET).
    Select { to: General, yes: General, no: General, adds: u64, flag: Flag, width: Width },
    /// ADR, its label resolved.
    Locate { to: General, address: u64 },
    /// B, B.cond, CBZ, CBNZ, the label resolved.
    Branch { when: When, target: u64 },
    /// LDR, LDAR, LDAPR, LDXR.
    Load { to: General, address: Address, width: Width, ordering: Ordering, is_exclusive: bool },
    /// STR, STLR.
    Store { from: General, address: Address, width: Width, ordering: Ordering },
    /// STXR, STLXR.
    StoreExclusive { status: General, from: General, address: Address, width: Width, ordering: Ordering },
    /// SWP, LDADD, LDCLR, LDSET, LDEOR and their forms without a result.
    Atomic { operation: Operation, with: General, to: General, address: Address, width: Width, ordering: Ordering },
    /// CAS: `expected` also receives what was there.
    CompareAndSwap { expected: General, new: General, address: Address, width: Width, ordering: Ordering },
    /// DSB, DMB, ISB.
    Barrier(Barrier),
    /// TLBI.
    Tlbi { opcode: Opcode, operand: General },
    /// MRS.
    ReadSystem { to: General, register: System },
    /// MSR.
    WriteSystem { register: System, from: General },
    /// SVC (to EL1) and HVC (to EL2).
    Call { level: Level, number: u16 },
    /// ERET.
    Return,
}
