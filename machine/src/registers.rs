//! The system registers that decide how a CPU translates, and the features its ID registers announce.
//! A write takes effect at the next context synchronization event; until then either value may be used. (D24.1.2.2)

/// A system register of the simulated CPU. (D24.2)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(missing_docs, reason = "each variant is the manual's register of that name")]
pub enum Register {
    Ttbr0El1,
    Ttbr1El1,
    TcrEl1,
    MairEl1,
    SctlrEl1,
    Ttbr0El2,
    Ttbr1El2,
    TcrEl2,
    MairEl2,
    SctlrEl2,
    VttbrEl2,
    VtcrEl2,
    HcrEl2,
    HcrxEl2,
}

impl Register {
    /// Every register, in the order of [`Registers`].
    pub const ALL: [Self; 14] = [
        Self::Ttbr0El1,
        Self::Ttbr1El1,
        Self::TcrEl1,
        Self::MairEl1,
        Self::SctlrEl1,
        Self::Ttbr0El2,
        Self::Ttbr1El2,
        Self::TcrEl2,
        Self::MairEl2,
        Self::SctlrEl2,
        Self::VttbrEl2,
        Self::VtcrEl2,
        Self::HcrEl2,
        Self::HcrxEl2,
    ];

    /// True when EL1 does not have it.
    pub(crate) const fn is_of_el2(self) -> bool {
        self as usize >= Self::Ttbr0El2 as usize
    }

    /// True when it names the root of a page table.
    pub(crate) const fn is_root(self) -> bool {
        matches!(self, Self::Ttbr0El1 | Self::Ttbr1El1 | Self::Ttbr0El2 | Self::Ttbr1El2 | Self::VttbrEl2)
    }
}

/// One value for each [`Register`]; all zero out of reset.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Registers([u64; Register::ALL.len()]);

impl Registers {
    /// The value of `register`.
    pub const fn get(&self, register: Register) -> u64 {
        self.0[register as usize]
    }

    /// Sets `register`.
    pub const fn set(&mut self, register: Register, value: u64) {
        self.0[register as usize] = value;
    }

    /// Bits `low..low + width` of `register`.
    pub(crate) const fn field(&self, register: Register, low: u8, width: u8) -> u64 {
        self.get(register) >> low & ((1 << width) - 1)
    }

    /// Bit `bit` of `register`.
    pub(crate) const fn bit(&self, register: Register, bit: u8) -> bool {
        self.field(register, bit, 1) == 1
    }
}

/// SCTLR_ELx.M: stage-1 translation is on.
pub const SCTLR_M: u64 = 1;
/// SCTLR_ELx.WXN: writable means not executable.
pub const SCTLR_WXN: u64 = 1 << 19;
/// HCR_EL2.VM: stage-2 translation is on.
pub const HCR_VM: u64 = 1;
/// HCR_EL2.FB: local TLBIs from EL1 are broadcast in the inner shareable domain.
pub const HCR_FB: u64 = 1 << 9;
/// HCR_EL2.TGE: EL0 belongs to EL2.
pub const HCR_TGE: u64 = 1 << 27;
/// HCR_EL2.E2H: EL2 has two address ranges and ASIDs.
pub const HCR_E2H: u64 = 1 << 34;
/// HCR_EL2.FWB: stage 2 decides the memory type by itself.
pub const HCR_FWB: u64 = 1 << 46;
/// HCRX_EL2.FnXS: TLBIs executed at EL1 behave as their nXS forms.
pub const HCRX_FNXS: u64 = 1 << 3;

/// FEAT_ETS2 and FEAT_ETS3: whether a fault may come from a walk older than what the program already saw. (D8.2.6)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ets {
    /// Neither.
    None,
    /// Ordered for faults of entries that no TLB may hold.
    Ets2,
    /// Ordered for every fault.
    Ets3,
}

/// What the ID registers of one CPU announce; CPUs of one machine may differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Features {
    /// ID_AA64MMFR2_EL1.BBM, 0 to 3.
    pub bbm: u8,
    /// ID_AA64MMFR1_EL1.HAFDBS: hardware may set the access flag.
    pub access_flag: bool,
    /// ID_AA64MMFR1_EL1.HAFDBS: hardware may set the dirty state.
    pub dirty_state: bool,
    /// ID_AA64MMFR1_EL1.ETS.
    pub ets: Ets,
    /// ID_AA64ISAR0_EL1.TLB = 2: range TLBIs.
    pub range_tlbi: bool,
    /// ID_AA64MMFR2_EL1.TTL: TLBIs read the level hint.
    pub ttl: bool,
    /// ID_AA64ISAR1_EL1.XS: nXS forms, the XS attribute.
    pub xs: bool,
    /// ID_AA64MMFR0_EL1.TGran*: DS may be set for 4 and 16 KiB granules.
    pub lpa2: bool,
    /// ID_AA64MMFR2_EL1.VARange and PARange = 6: 52 bits with the 64 KiB granule.
    pub lpa: bool,
    /// ID_AA64MMFR1_EL1.nTLBPA: no walk cache is indexed by physical address. Rule RTJQVP makes both values alike here.
    pub no_physical_index: bool,
    /// ID_AA64MMFR2_EL1.CnP: TTBR.CnP shares entries with other CPUs.
    pub common_not_private: bool,
    /// ID_AA64MMFR0_EL1.PARange as a number of bits.
    pub output_bits: u8,
    /// EL2 is implemented.
    pub el2: bool,
    /// A broadcast TLBI of another CPU may be over too early here: it takes two, each with its DSB. (CVE-2025-10263)
    pub repeat_tlbi: bool,
    /// What MSRs write takes effect in program order. The architecture promises that of one register alone. (D24.1.2.2)
    pub orders_writes: bool,
}

impl Features {
    /// A CPU with every optional feature and BBM level `bbm`.
    pub const fn full(bbm: u8) -> Self {
        Self {
            bbm,
            access_flag: true,
            dirty_state: true,
            ets: Ets::Ets2,
            range_tlbi: true,
            ttl: true,
            xs: true,
            lpa2: true,
            lpa: true,
            no_physical_index: true,
            common_not_private: true,
            output_bits: 52,
            el2: true,
            repeat_tlbi: false,
            orders_writes: false,
        }
    }

    /// An Armv8.0 CPU with 48-bit addresses: none of the optional features.
    pub const fn plain() -> Self {
        Self {
            bbm: 0,
            access_flag: false,
            dirty_state: false,
            ets: Ets::None,
            range_tlbi: false,
            ttl: false,
            xs: false,
            lpa2: false,
            lpa: false,
            no_physical_index: false,
            common_not_private: false,
            output_bits: 48,
            el2: true,
            repeat_tlbi: false,
            orders_writes: false,
        }
    }
}
