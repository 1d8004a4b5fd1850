//! System registers: those of the simulated machine, those of exceptions, PSTATE, and all others, by name and encoding.
//! (DDI 0487, D24.1, op0:op1:CRn:CRm:op2)

use machine::event::Level;
use machine::registers::Register;

/// A system register.
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
    /// PAR_EL1.
    Translated,
    /// SP_EL0, SP_EL1, SP_EL2.
    Stack(Level),
    /// CurrentEL.
    CurrentLevel,
    /// DAIF.
    Masks,
    /// SPSel.
    StackSelect,
    /// One without any effect here, by its encoding: it can be written and read back.
    Other(Encoding),
}

/// The op0, op1, CRn, CRm and op2 of MRS and MSR, as bits 20:5 of the instruction have them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Encoding(pub u16);

impl Encoding {
    /// From the five fields.
    pub const fn new(op0: u16, op1: u16, crn: u16, crm: u16, op2: u16) -> Self {
        Self(op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2)
    }
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(bits) = *self;
        let (op0, op1, crn, crm, op2) = (bits >> 14, bits >> 11 & 7, bits >> 7 & 15, bits >> 3 & 15, bits & 7);
        match TABLE.iter().find(|it| it.1 == *self) {
            Some((name, ..)) => f.write_str(name),
            None => write!(f, "S{op0}_{op1}_C{crn}_C{crm}_{op2}"),
        }
    }
}

type Row = (&'static str, Encoding, System);

const fn row(name: &'static str, fields: [u16; 5], system: System) -> Row {
    let [op0, op1, crn, crm, op2] = fields;
    (name, Encoding::new(op0, op1, crn, crm, op2), system)
}

const fn other(name: &'static str, fields: [u16; 5]) -> Row {
    let [op0, op1, crn, crm, op2] = fields;
    let encoding = Encoding::new(op0, op1, crn, crm, op2);
    (name, encoding, System::Other(encoding))
}

const fn translation(name: &'static str, fields: [u16; 5], register: Register) -> Row {
    row(name, fields, System::Translation(register))
}

/// Every register that has a name here.
const TABLE: &[Row] = &[
    translation("SCTLR_EL1", [3, 0, 1, 0, 0], Register::SctlrEl1),
    translation("TTBR0_EL1", [3, 0, 2, 0, 0], Register::Ttbr0El1),
    translation("TTBR1_EL1", [3, 0, 2, 0, 1], Register::Ttbr1El1),
    translation("TCR_EL1", [3, 0, 2, 0, 2], Register::TcrEl1),
    translation("MAIR_EL1", [3, 0, 10, 2, 0], Register::MairEl1),
    translation("SCTLR_EL2", [3, 4, 1, 0, 0], Register::SctlrEl2),
    translation("TTBR0_EL2", [3, 4, 2, 0, 0], Register::Ttbr0El2),
    translation("TTBR1_EL2", [3, 4, 2, 0, 1], Register::Ttbr1El2),
    translation("TCR_EL2", [3, 4, 2, 0, 2], Register::TcrEl2),
    translation("MAIR_EL2", [3, 4, 10, 2, 0], Register::MairEl2),
    translation("VTTBR_EL2", [3, 4, 2, 1, 0], Register::VttbrEl2),
    translation("VTCR_EL2", [3, 4, 2, 1, 2], Register::VtcrEl2),
    translation("HCR_EL2", [3, 4, 1, 1, 0], Register::HcrEl2),
    translation("HCRX_EL2", [3, 4, 1, 2, 2], Register::HcrxEl2),
    row("SPSR_EL1", [3, 0, 4, 0, 0], System::SavedState(Level::El1)),
    row("ELR_EL1", [3, 0, 4, 0, 1], System::Return(Level::El1)),
    row("ESR_EL1", [3, 0, 5, 2, 0], System::Syndrome(Level::El1)),
    row("FAR_EL1", [3, 0, 6, 0, 0], System::FaultAddress(Level::El1)),
    row("VBAR_EL1", [3, 0, 12, 0, 0], System::VectorBase(Level::El1)),
    row("SPSR_EL2", [3, 4, 4, 0, 0], System::SavedState(Level::El2)),
    row("ELR_EL2", [3, 4, 4, 0, 1], System::Return(Level::El2)),
    row("ESR_EL2", [3, 4, 5, 2, 0], System::Syndrome(Level::El2)),
    row("FAR_EL2", [3, 4, 6, 0, 0], System::FaultAddress(Level::El2)),
    row("HPFAR_EL2", [3, 4, 6, 0, 4], System::FaultIntermediate),
    row("VBAR_EL2", [3, 4, 12, 0, 0], System::VectorBase(Level::El2)),
    row("SP_EL0", [3, 0, 4, 1, 0], System::Stack(Level::El0)),
    row("SP_EL1", [3, 4, 4, 1, 0], System::Stack(Level::El1)),
    row("SPSel", [3, 0, 4, 2, 0], System::StackSelect),
    row("CurrentEL", [3, 0, 4, 2, 2], System::CurrentLevel),
    row("DAIF", [3, 3, 4, 2, 1], System::Masks),
    row("PAR_EL1", [3, 0, 7, 4, 0], System::Translated),
    other("TPIDR_EL0", [3, 3, 13, 0, 2]),
    other("TPIDRRO_EL0", [3, 3, 13, 0, 3]),
    other("TPIDR_EL1", [3, 0, 13, 0, 4]),
    other("TPIDR_EL2", [3, 4, 13, 0, 2]),
    other("CPACR_EL1", [3, 0, 1, 0, 2]),
    other("MIDR_EL1", [3, 0, 0, 0, 0]),
    other("MPIDR_EL1", [3, 0, 0, 0, 5]),
    other("ID_AA64PFR0_EL1", [3, 0, 0, 4, 0]),
    other("ID_AA64PFR1_EL1", [3, 0, 0, 4, 1]),
    other("ID_AA64PFR2_EL1", [3, 0, 0, 4, 2]),
    other("ID_AA64DFR0_EL1", [3, 0, 0, 5, 0]),
    other("ID_AA64ISAR0_EL1", [3, 0, 0, 6, 0]),
    other("ID_AA64MMFR0_EL1", [3, 0, 0, 7, 0]),
    other("ID_AA64MMFR1_EL1", [3, 0, 0, 7, 1]),
    other("ID_AA64MMFR2_EL1", [3, 0, 0, 7, 2]),
    other("CTR_EL0", [3, 3, 0, 0, 1]),
    other("PMCR_EL0", [3, 3, 9, 12, 0]),
    other("PMCNTENSET_EL0", [3, 3, 9, 12, 1]),
    other("CNTVCT_EL0", [3, 3, 14, 0, 2]),
    other("ICC_SRE_EL2", [3, 4, 12, 9, 5]),
    other("HFGRTR_EL2", [3, 4, 1, 1, 4]),
    other("HFGWTR_EL2", [3, 4, 1, 1, 5]),
    other("HFGITR_EL2", [3, 4, 1, 1, 6]),
    other("HDFGRTR2_EL2", [3, 4, 3, 1, 0]),
    other("HDFGWTR2_EL2", [3, 4, 3, 1, 1]),
    other("HFGRTR2_EL2", [3, 4, 3, 1, 2]),
    other("HFGWTR2_EL2", [3, 4, 3, 1, 3]),
    other("HDFGRTR_EL2", [3, 4, 3, 1, 4]),
    other("HDFGWTR_EL2", [3, 4, 3, 1, 5]),
    other("HAFGRTR_EL2", [3, 4, 3, 1, 6]),
    other("HFGITR2_EL2", [3, 4, 3, 1, 7]),
];

impl System {
    /// By its name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|it| it.0.eq_ignore_ascii_case(name)).map(|it| it.2)
    }

    /// By its encoding; one without a name has no effect.
    pub fn encoded(encoding: Encoding) -> Self {
        TABLE.iter().find(|it| it.1 == encoding).map_or(Self::Other(encoding), |it| it.2)
    }
}

impl std::fmt::Display for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (TABLE.iter().find(|it| it.2 == *self), self) {
            (Some((name, ..)), _) => f.write_str(name),
            (None, Self::Other(encoding)) => encoding.fmt(f),
            (None, _) => write!(f, "{self:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_has_one_name_and_one_encoding() {
        for (at, (name, encoding, system)) in TABLE.iter().enumerate() {
            assert_eq!((System::named(name), System::encoded(*encoding)), (Some(*system), *system), "{name}");
            assert_eq!(encoding.to_string(), *name);
            assert_eq!(system.to_string(), *name);
            assert!(TABLE[..at].iter().all(|it| it.0 != *name && it.1 != *encoding && it.2 != *system), "{name}");
        }
        let unnamed = Encoding::new(3, 4, 1, 1, 7);
        assert_eq!((System::encoded(unnamed), unnamed.to_string().as_str()), (System::Other(unnamed), "S3_4_C1_C1_7"));
    }
}
