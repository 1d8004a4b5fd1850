//! Faults and the ESR_ELx values that report them. (DDI 0487, D24.2.44, fields of ISS for Data and Instruction aborts)

/// Why a translation failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// An address beyond the configured output size.
    AddressSize,
    /// No valid descriptor.
    Translation,
    /// The access flag is clear and hardware does not set it.
    AccessFlag,
    /// The access is not permitted.
    Permission,
    /// The TLB holds entries that must not be there together.
    Conflict,
}

/// A fault of one stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fault {
    /// Why.
    pub kind: FaultKind,
    /// Level of the descriptor, -1 to 3; meaningless for a conflict.
    pub level: i8,
    /// Raised by stage 2.
    pub is_stage2: bool,
    /// Raised by stage 2 for the address of a stage-1 descriptor (ISS.S1PTW).
    pub is_on_walk: bool,
    /// Intermediate physical address, for faults of stage 2.
    pub intermediate: u64,
}

impl Fault {
    /// A fault of stage 1.
    pub const fn stage1(kind: FaultKind, level: i8) -> Self {
        Self { kind, level, is_stage2: false, is_on_walk: false, intermediate: 0 }
    }

    /// A fault of stage 2 for `intermediate`.
    pub const fn stage2(kind: FaultKind, level: i8, intermediate: u64) -> Self {
        Self { kind, level, is_stage2: true, is_on_walk: false, intermediate }
    }

    /// The fault status code, ISS\[5:0\].
    pub const fn status(&self) -> u64 {
        let level = self.level;
        match (self.kind, level) {
            (FaultKind::Conflict, _) => 0b11_0000,
            (FaultKind::AddressSize, -1) => 0b10_1001,
            (FaultKind::Translation, -1) => 0b10_1011,
            (FaultKind::AddressSize, _) => level as u64,
            (FaultKind::Translation, _) => 0b00_0100 | level as u64,
            (FaultKind::AccessFlag, _) => 0b00_1000 | level as u64,
            (FaultKind::Permission, _) => 0b00_1100 | level as u64,
        }
    }

    /// ESR_ELx for an access of `kind`; `is_same_level` when the handler runs at the exception level of the access.
    pub const fn esr(&self, kind: AccessKind, is_same_level: bool) -> u64 {
        let class = match kind {
            AccessKind::Fetch => 0x20,
            _ => 0x24,
        } | is_same_level as u64;
        // IL is 1 for both classes; S1PTW says that HPFAR names a descriptor; WnR is only for data.
        class << 26
            | 1 << 25
            | (self.is_on_walk as u64) << 7
            | (matches!(kind, AccessKind::Write) as u64) << 6
            | self.status()
    }

    /// HPFAR_EL2 for a fault of stage 2: address bits 51:12 from bit 4.
    pub const fn hpfar(&self) -> u64 {
        self.intermediate >> 12 << 4
    }
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kind = match self.kind {
            FaultKind::AddressSize => "address size",
            FaultKind::Translation => "translation",
            FaultKind::AccessFlag => "access flag",
            FaultKind::Permission => "permission",
            FaultKind::Conflict => return f.write_str("a TLB conflict abort"),
        };
        let stage = 1 + u8::from(self.is_stage2);
        write!(f, "a stage-{stage} {kind} fault at level {}", self.level)?;
        if self.is_on_walk { f.write_str(" for a table of stage 1") } else { Ok(()) }
    }
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store, or an atomic that needs write permission.
    Write,
    /// An instruction fetch.
    Fetch,
}
