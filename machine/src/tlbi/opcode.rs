//! Which TLBI an opcode is. (DDI 0487, C5.5; the op0 = 1, CRn = 8 and 9 space of SYS)

use crate::barrier::Domain;

/// The op1, CRn, CRm and op2 of a SYS instruction, in the places they have in its 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Opcode(u32);

impl Opcode {
    /// From the four fields.
    pub const fn new(op1: u32, crn: u32, crm: u32, op2: u32) -> Self {
        Self((op1 & 7) << 16 | (crn & 15) << 12 | (crm & 15) << 8 | (op2 & 7) << 5)
    }

    /// From the 32-bit instruction, or `None` if it is no SYS instruction with op0 = 1.
    pub const fn from_instruction(instruction: u32) -> Option<Self> {
        if instruction & 0xfff8_0000 == 0xd508_0000 { Some(Self(instruction & 0x0007_ffe0)) } else { None }
    }

    /// op1, CRn, CRm, op2.
    pub const fn fields(self) -> (u32, u32, u32, u32) {
        (self.0 >> 16 & 7, self.0 >> 12 & 15, self.0 >> 8 & 15, self.0 >> 5 & 7)
    }
}

/// On which CPUs a TLBI acts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Only the CPU that executes it.
    Local,
    /// Every CPU of the inner shareable domain: here, all of them.
    Inner,
    /// Every CPU of the outer shareable domain: here, all of them.
    Outer,
}

impl Scope {
    /// True when a DSB of `domain` completes such a TLBI on every CPU that it acts on. (RPSMWS)
    pub const fn is_within(self, domain: Domain) -> bool {
        match self {
            Self::Local => true,
            Self::Inner => !matches!(domain, Domain::NonShareable),
            Self::Outer => matches!(domain, Domain::Outer | Domain::System),
        }
    }
}

/// What a TLBI selects by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// Input address and ASID: VA, VAL.
    Address,
    /// Input address, every ASID: VAA, VAAL.
    AddressAllAsids,
    /// ASID.
    Asid,
    /// Stage 1 (and what is combined with it) of the current VMID.
    Vmall,
    /// Both stages of the current VMID.
    VmallS12,
    /// The whole regime, every VMID.
    All,
    /// Intermediate physical address: stage 2 only.
    Intermediate,
}

/// The meaning of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operation {
    /// What it selects by.
    pub what: What,
    /// For EL2's own regime rather than EL1&0's.
    pub is_el2: bool,
    /// The operand is a range.
    pub is_range: bool,
    /// Only entries of the last level of the walk.
    pub is_last_level: bool,
    /// Does not reach entries with the XS attribute.
    pub is_nxs: bool,
    /// On which CPUs.
    pub scope: Scope,
}

impl Opcode {
    /// The TLBI that this opcode is, or `None` where the instruction is UNDEFINED.
    pub const fn decode(self) -> Option<Operation> {
        let (op1, crn, crm, op2) = self.fields();
        if crn != 8 && crn != 9 {
            return None;
        }
        let decoded = match op1 {
            0 => Self::el1(crm, op2),
            4 if crm == 0 || crm == 4 => Self::intermediate(crm, op2),
            4 => Self::el2(crm, op2),
            _ => None,
        };
        match decoded {
            Some(mut operation) => {
                operation.is_nxs = crn == 9;
                Some(operation)
            }
            None => None,
        }
    }

    /// op1 = 0. CRm: 1, 3, 7 single (outer, inner, local); 5, 2, 6 range.
    const fn el1(crm: u32, op2: u32) -> Option<Operation> {
        let (scope, is_range) = match Self::place(crm) {
            Some(place) => place,
            None => return None,
        };
        let what = match op2 {
            0 if !is_range => What::Vmall,
            2 if !is_range => What::Asid,
            1 | 5 => What::Address,
            3 | 7 => What::AddressAllAsids,
            _ => return None,
        };
        Some(Operation { what, is_el2: false, is_range, is_last_level: op2 & 4 != 0, is_nxs: false, scope })
    }

    /// op1 = 4, except CRm 0 and 4.
    const fn el2(crm: u32, op2: u32) -> Option<Operation> {
        let (scope, is_range) = match Self::place(crm) {
            Some(place) => place,
            None => return None,
        };
        let (what, is_el2) = match op2 {
            1 | 5 => (What::Address, true),
            0 if !is_range => (What::All, true),
            4 if !is_range => (What::All, false),
            6 if !is_range => (What::VmallS12, false),
            _ => return None,
        };
        Some(Operation { what, is_el2, is_range, is_last_level: op2 == 5, is_nxs: false, scope })
    }

    /// op1 = 4, CRm 0 (inner) and 4 (local and outer).
    const fn intermediate(crm: u32, op2: u32) -> Option<Operation> {
        let scope = match (crm, op2) {
            (0, 1 | 2 | 5 | 6) => Scope::Inner,
            (4, 1 | 2 | 5 | 6) => Scope::Local,
            (4, 0 | 3 | 4 | 7) => Scope::Outer,
            _ => return None,
        };
        let is_range = matches!(op2, 2 | 3 | 6 | 7);
        let what = What::Intermediate;
        Some(Operation { what, is_el2: false, is_range, is_last_level: op2 >= 4, is_nxs: false, scope })
    }

    const fn place(crm: u32) -> Option<(Scope, bool)> {
        match crm {
            1 => Some((Scope::Outer, false)),
            2 => Some((Scope::Inner, true)),
            3 => Some((Scope::Inner, false)),
            5 => Some((Scope::Outer, true)),
            6 => Some((Scope::Local, true)),
            7 => Some((Scope::Local, false)),
            _ => None,
        }
    }
}

impl core::fmt::Display for Operation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let last = if self.is_last_level { "L" } else { "" };
        let range = if self.is_range { "R" } else { "" };
        let level = if self.is_el2 { "E2" } else { "E1" };
        let scope = match self.scope {
            Scope::Local => "",
            Scope::Inner => "IS",
            Scope::Outer => "OS",
        };
        match self.what {
            What::Address => write!(f, "TLBI {range}VA{last}{level}{scope}")?,
            What::AddressAllAsids => write!(f, "TLBI {range}VAA{last}{level}{scope}")?,
            What::Asid => write!(f, "TLBI ASID{level}{scope}")?,
            What::Vmall => write!(f, "TLBI VMALL{level}{scope}")?,
            What::VmallS12 => write!(f, "TLBI VMALLS12{level}{scope}")?,
            What::All => write!(f, "TLBI ALL{level}{scope}")?,
            What::Intermediate => write!(f, "TLBI {range}IPAS2{last}{level}{scope}")?,
        }
        if self.is_nxs { write!(f, "nXS") } else { Ok(()) }
    }
}
