//! The instructions that an auditor looks at, by their 32 bits. (DDI 0487, C4.1)

use machine::barrier::{Accesses, Barrier, Domain};
use machine::registers::Register;
use machine::tlbi::Opcode;

/// What an instruction does that concerns translation, beside storing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// A system register is written from Xt.
    Write(Name, u8),
    /// A TLBI, with Xt.
    Tlbi(Opcode, u8),
    /// DSB, DMB, ISB.
    Barrier(Barrier),
    /// Exception return.
    Return,
    /// DC ZVA, of the block that holds the address in Xt.
    ZeroBlock(u8),
    /// HVC or SMC: what is asked for stands in X0.
    Call,
}

/// Calls that reset the machine: SYSTEM_RESET, and SYSTEM_RESET2 in both conventions. (DEN0022F, 5.12, 5.13)
pub const RESETS: [u64; 3] = [0x8400_0009, 0x8400_0012, 0xc400_0012];

/// A system register as MSR names it: HCR_EL2.E2H gives some names at EL2 another register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// `_EL1`, which with E2H is EL2's own at EL2.
    El1(Register),
    /// `_EL12`: EL1's from EL2.
    El12(Register),
    /// `_EL2`.
    El2(Register),
}

/// The registers of EL1 beside those of EL2 that stand in for them.
const TWINS: [(Register, Register); 5] = [
    (Register::SctlrEl1, Register::SctlrEl2),
    (Register::TcrEl1, Register::TcrEl2),
    (Register::Ttbr0El1, Register::Ttbr0El2),
    (Register::Ttbr1El1, Register::Ttbr1El2),
    (Register::MairEl1, Register::MairEl2),
];

impl Name {
    /// The register that is meant, at EL2 with or without E2H, or elsewhere.
    pub fn register(self, is_host_el2: bool) -> Register {
        let twin = |register| TWINS.iter().find(|(el1, _)| *el1 == register).map_or(register, |(_, el2)| *el2);
        match self {
            Self::El1(register) if is_host_el2 => twin(register),
            Self::El1(register) | Self::El12(register) | Self::El2(register) => register,
        }
    }

    fn of(op1: u32, crn: u32, crm: u32, op2: u32) -> Option<Self> {
        let twin = match (crn, crm, op2) {
            (1, 0, 0) => 0,
            (2, 0, 2) => 1,
            (2, 0, 0) => 2,
            (2, 0, 1) => 3,
            (10, 2, 0) => 4,
            _ => TWINS.len(),
        };
        let el2 = match (crn, crm, op2) {
            (1, 1, 0) => Some(Register::HcrEl2),
            (1, 2, 2) => Some(Register::HcrxEl2),
            (2, 1, 0) => Some(Register::VttbrEl2),
            (2, 1, 2) => Some(Register::VtcrEl2),
            _ => None,
        };
        let twin = TWINS.get(twin);
        match op1 {
            0 => twin.map(|it| Self::El1(it.0)),
            5 => twin.map(|it| Self::El12(it.0)),
            4 => twin.map(|it| it.1).or(el2).map(Self::El2),
            _ => None,
        }
    }
}

/// Reads an instruction; most are none of these.
pub fn system(word: u32) -> Option<System> {
    let (op1, crn, crm, op2) = (word >> 16 & 7, word >> 12 & 15, word >> 8 & 15, word >> 5 & 7);
    let xt = (word & 31) as u8;
    match word & 0xfff8_0000 {
        0xd518_0000 => Name::of(op1, crn, crm, op2).map(|name| System::Write(name, xt)),
        0xd508_0000 if matches!(crn, 8 | 9) => Opcode::from_instruction(word).map(|opcode| System::Tlbi(opcode, xt)),
        0xd508_0000 if (op1, crn, crm, op2) == (3, 7, 4, 1) => Some(System::ZeroBlock(xt)),
        0xd500_0000 if (op1, crn, xt) == (3, 3, 31) => barrier(crm, op2).map(System::Barrier),
        0xd400_0000 if matches!(word & 0xffe0_001f, 0xd400_0002 | 0xd400_0003) => Some(System::Call),
        _ if word == 0xd69f_03e0 || word & 0xffff_fbff == 0xd69f_0bff => Some(System::Return),
        _ => None,
    }
}

fn barrier(crm: u32, op2: u32) -> Option<Barrier> {
    let domain = [Domain::Outer, Domain::NonShareable, Domain::Inner, Domain::System][(crm >> 2) as usize];
    let accesses = [Accesses::All, Accesses::Loads, Accesses::Stores, Accesses::All][(crm & 3) as usize];
    match (op2, crm & 3) {
        (6, _) => Some(Barrier::Isb),
        (5, 1..) => Some(Barrier::Dmb { domain, accesses }),
        // CRm 0b0000 and 0b0100 are SSBB and PSSBB, which hold nothing back here; 0b1000 and 0b1100 act as SY does.
        (4, 0) if crm < 8 => None,
        (4, 0) => Some(Barrier::DSB_SY),
        (4, _) => Some(Barrier::Dsb { domain, accesses, is_nxs: false }),
        (5, 0) => Some(Barrier::Dmb { domain: Domain::System, accesses: Accesses::All }),
        // FEAT_XS: the domain is in CRm\[3:2\], and CRm\[1:0\] is 0b10.
        (1, 2) => Some(Barrier::Dsb { domain, accesses: Accesses::All, is_nxs: true }),
        _ => None,
    }
}

/// What else is to be known of an instruction that stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Store {
    /// Ordered after every earlier store.
    pub is_release: bool,
    /// Reads and writes in one.
    pub is_exchange: bool,
    /// Writes only where it knows what it replaces: compare-and-swap, store-exclusive.
    pub is_compared: bool,
}

/// How an instruction stores, if it does.
pub fn store(word: u32) -> Store {
    let is = |mask: u32, value: u32| word & mask == value;
    let is_atomic = is(0x3f20_0c00, 0x3820_0000) && !acquires(word);
    let is_cas = is(0x3fa0_7c00, 0x08a0_7c00);
    let is_exclusive = is(0x3fc0_0000, 0x0800_0000) || is(0xbfa0_7c00, 0x0820_7c00);
    let is_release = is_atomic && is(1 << 22, 1 << 22)
        || (is_cas || is_exclusive || is(0x3fe0_0000, 0x0880_0000)) && is(1 << 15, 1 << 15)
        || is(0x3fe0_0c00, 0x1900_0000);
    Store { is_release, is_exchange: is_atomic || is_cas, is_compared: is_cas || is_exclusive }
}

/// Whether an instruction is a load-acquire, and no more than that: LDAR, LDAPR, LDAPUR.
pub const fn acquires(word: u32) -> bool {
    let is_unscaled = word & 0x3f20_0c00 == 0x1900_0000 && word >> 22 & 3 != 0;
    word & 0x3fe0_8000 == 0x08c0_8000 || word & 0x3fe0_fc00 == 0x38a0_c000 || is_unscaled
}
