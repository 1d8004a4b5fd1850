//! The A64 instructions that are known, as data: whoever decodes them, from text or from machine code, makes these.

use std::fmt;

use machine::barrier::Barrier;
use machine::event::Level;
use machine::tlbi::Opcode;

use crate::registers::System;

/// A general-purpose register, 0 to 30; 31 is the zero register, 32 the stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct General(pub u8);

impl General {
    /// XZR.
    pub const ZERO: Self = Self(31);
    /// SP: that of the exception level, or SP_EL0, as PSTATE.SP says.
    pub const STACK: Self = Self(32);
    /// X30, which BL leaves its return address in.
    pub const LINK: Self = Self(30);
}

/// How much of a register or of memory an instruction uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Width {
    /// 8 bits, in memory only.
    Byte,
    /// 16 bits, in memory only.
    Half,
    /// 32 bits: W registers.
    Word,
    /// 64 bits: X registers.
    Double,
}

impl Width {
    /// The bits that it keeps.
    pub const fn mask(self) -> u64 {
        match self {
            Self::Byte => 0xff,
            Self::Half => 0xffff,
            Self::Word => 0xffff_ffff,
            Self::Double => !0,
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
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

/// When the sum of base and offset becomes the new base.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WriteBack {
    /// Never: `[X1,#8]`.
    No,
    /// Before the access, which uses the sum: `[X1,#8]!`.
    Before,
    /// After the access, which uses the base alone: `[X1],#8`.
    After,
}

/// An address: a base and an offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// Base.
    pub base: General,
    /// Offset in bytes.
    pub offset: Operand,
    /// What becomes of the base.
    pub write_back: WriteBack,
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
    /// TBNZ: this bit is set.
    Set(General, u8),
    /// TBZ: this bit is clear.
    Unset(General, u8),
}

/// What an instruction does to lines of caches. Memory is coherent to the simulated machine, where it does nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cache {
    /// DC IVAC: drops data, to the point of coherency.
    Invalidate,
    /// DC CVAC: writes data to the point of coherency.
    Clean,
    /// DC CVAU: writes data to the point of unification.
    CleanToUnification,
    /// DC CIVAC: writes data to the point of coherency, then drops it.
    CleanAndInvalidate,
    /// IC IVAU: drops instructions.
    InvalidateInstructions,
    /// IC IALLU: drops all of this CPU's instructions.
    InvalidateAllInstructions,
    /// IC IALLUIS: drops all instructions of the inner shareable domain.
    InvalidateAllInstructionsInner,
}

impl Cache {
    /// Every one, by its name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("DC IVAC", Self::Invalidate),
        ("DC CVAC", Self::Clean),
        ("DC CVAU", Self::CleanToUnification),
        ("DC CIVAC", Self::CleanAndInvalidate),
        ("IC IVAU", Self::InvalidateInstructions),
        ("IC IALLU", Self::InvalidateAllInstructions),
        ("IC IALLUIS", Self::InvalidateAllInstructionsInner),
    ];

    /// True for those that work by address.
    pub const fn has_address(self) -> bool {
        !matches!(self, Self::InvalidateAllInstructions | Self::InvalidateAllInstructionsInner)
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|it| it.1 == *self).map_or("", |it| it.0))
    }
}

/// Fields of PSTATE that MSR sets to a constant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateField {
    /// SPSel.
    StackSelect,
    /// DAIFSet: masks these exceptions.
    Mask,
    /// DAIFClr: unmasks these exceptions.
    Unmask,
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
    /// No effect: NOP, and hints that only advise.
    Nothing,
    /// DC, IC.
    Cache { operation: Cache, operand: General },
    /// MOV, ADD, AND, …; CMP writes the zero register.
    Compute { operation: Operation, to: General, left: General, right: Operand, width: Width, sets_flags: bool },
    /// CSEL, and CSINC where `adds` is 1 (CSET).
    Select { to: General, yes: General, no: General, adds: u64, flag: Flag, width: Width },
    /// MOVK: 16 bits become `value`, `shift` bits from the lowest.
    Insert { to: General, value: u16, shift: u8, width: Width },
    /// UBFM (UBFX, LSR, LSL), and BFM (BFI, BFXIL), which `keeps` the others: `bits` bits of `from`, from bit `low` on, go to bit `at`;
    /// the others are zero.
    Extract { to: General, from: General, low: u8, bits: u8, at: u8, width: Width, keeps: bool },
    /// ADR, ADRP, the label resolved.
    Locate { to: General, address: u64 },
    /// B, B.cond, CBZ, CBNZ, TBZ, TBNZ, the label resolved.
    Branch { when: When, target: u64 },
    /// BL.
    BranchWithLink { target: u64 },
    /// BR, RET, and BLR where it links.
    BranchTo { target: General, links: bool },
    /// LDR of a constant beside the code, its address resolved.
    LoadLiteral { to: General, place: u64, width: Width },
    /// LDP.
    LoadPair { first: General, second: General, address: Address, width: Width },
    /// STP.
    StorePair { first: General, second: General, address: Address, width: Width },
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
    /// MSR of a constant.
    SetState { field: StateField, value: u8 },
    /// SVC (to EL1) and HVC (to EL2).
    Call { level: Level, number: u16 },
    /// SMC, to EL3, of which there is nothing here.
    MonitorCall { number: u16 },
    /// ERET.
    Return,
    /// WFE, WFI: the CPU waits, or goes on; both are allowed.
    Wait,
    /// SEV, SEVL: ends the waiting.
    Wake,
    /// BRK.
    Break { number: u16 },
    /// UDF.
    Undefined,
    /// AT of stage 1: the translation of an address for an access at `level`, to PAR_EL1.
    Translate { level: Level, is_write: bool, address: General },
}
