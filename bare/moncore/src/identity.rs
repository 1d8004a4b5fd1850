//! What a CPU says of itself: its ID registers, with what a guest at EL1 cannot use left out, and what a description
//! wants different laid over.

use vmsa::fields::{Field, ID_AA64MMFR1_EL1};
use vmsa::{IdRegisters, PageSize};

const HARDWARE_UPDATES: Field = ID_AA64MMFR1_EL1.the("HAFDBS");

/// A part of a register that reads as something else.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Overlay {
    /// What the part reads as; no bit outside the mask.
    pub value: u64,
    /// The bits of the part.
    pub mask: u64,
}

impl Overlay {
    /// `real` with the part replaced.
    pub const fn over(self, real: u64) -> u64 {
        real & !self.mask | self.value
    }
}

/// What one CPU is to say of itself; where nothing is said, the truth.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    /// MIDR_EL1.
    pub midr: Option<u64>,
    /// REVIDR_EL1.
    pub revidr: Option<u64>,
    /// ID_AA64MMFR0_EL1, ID_AA64MMFR1_EL1 and ID_AA64MMFR2_EL1.
    pub mmfr: [Overlay; 3],
    /// Whether the CPU comes late: its first CPU_ON is denied.
    pub is_late: bool,
}

/// One of the registers of group 3, S3_0_C0_CRm_op2 with CRm from 1 to 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register {
    /// CRm.
    pub crm: u32,
    /// op2.
    pub op2: u32,
}

impl Register {
    /// ID_AA64MMFR0_EL1.
    pub const MMFR0: Self = Self { crm: 7, op2: 0 };
    /// ID_AA64MMFR2_EL1.
    pub const MMFR2: Self = Self { crm: 7, op2: 2 };
}

/// Fields that read as zero because what they tell of is EL2's, or needs an EL2 that allows it and this one does not:
/// CRm, op2, lowest bit (D23.2).
const HIDDEN: &[(u32, u32, u32)] = &[
    (4, 0, 8),  // PFR0.EL2
    (4, 0, 40), // PFR0.MPAM
    (4, 0, 44), // PFR0.AMU
    (4, 1, 16), // PFR1.MPAM_frac
    (4, 1, 36), // PFR1.NMI
    (4, 1, 44), // PFR1.GCS
    (4, 1, 48), // PFR1.THE
    (4, 1, 60), // PFR1.PFAR
    (5, 0, 4),  // DFR0.TraceVer
    (5, 0, 16), // DFR0.PMSS
    (5, 0, 24), // DFR0.SEBEP
    (5, 0, 32), // DFR0.PMSVer
    (5, 0, 40), // DFR0.TraceFilt
    (5, 0, 44), // DFR0.TraceBuffer
    (5, 0, 52), // DFR0.BRBE
    (5, 0, 60), // DFR0.HPMN0
    (5, 1, 8),  // DFR1.BRPs, where DFR0 has its most: those above need MDSELR_EL1
    (5, 1, 12), // DFR1.BRPs
    (5, 1, 16), // DFR1.WRPs
    (5, 1, 20), // DFR1.WRPs
    (5, 1, 24), // DFR1.CTX_CMPs
    (5, 1, 28), // DFR1.CTX_CMPs
    (5, 1, 32), // DFR1.SPMU
    (5, 1, 36), // DFR1.PMICNTR
    (5, 1, 44), // DFR1.ITE
    (5, 1, 48), // DFR1.EBEP
    (6, 1, 60), // ISAR1.LS64
    (6, 2, 16), // ISAR2.MOPS
    (6, 2, 32), // ISAR2.SYSREG_128
    (6, 2, 36), // ISAR2.SYSINSTR_128
    (7, 0, 56), // MMFR0.FGT
    (7, 1, 8),  // MMFR1.VH
    (7, 1, 28), // MMFR1.XNX
    (7, 1, 32), // MMFR1.TWED
    (7, 1, 40), // MMFR1.HCX
    (7, 2, 24), // MMFR2.NV
    (7, 2, 40), // MMFR2.FWB
    (7, 2, 56), // MMFR2.EVT
    (7, 3, 0),  // MMFR3.TCRX
    (7, 3, 4),  // MMFR3.SCTLRX
    (7, 3, 8),  // MMFR3.S1PIE
    (7, 3, 12), // MMFR3.S2PIE
    (7, 3, 16), // MMFR3.S1POE
    (7, 3, 20), // MMFR3.S2POE
    (7, 3, 24), // MMFR3.AIE
    (7, 3, 32), // MMFR3.D128
    (7, 4, 0),  // MMFR4.PoPS
];

impl Identity {
    /// What a register of group 3 reads as on a CPU where it really is `real`. `physical_range` is the widest PARange that
    /// stage 2 lets a guest use.
    pub fn seen(&self, register: Register, real: u64, physical_range: u64) -> u64 {
        let Register { crm, op2 } = register;
        let hidden = HIDDEN.iter().filter(|(hidden_crm, hidden_op2, _)| (*hidden_crm, *hidden_op2) == (crm, op2));
        let seen = hidden.fold(real, |value, (_, _, low)| value & !(0xf << low));
        let seen = match (crm, op2) {
            (7, 0..=2) => self.mmfr[op2 as usize].over(seen),
            _ => seen,
        };
        // Whatever is claimed, stage 2 has no more.
        if register == Register::MMFR0 { seen & !0xf | (seen & 0xf).min(physical_range) } else { seen }
    }

    /// The first thing that is claimed of a CPU and that it cannot do, in words: what a guest would use and not find.
    pub fn false_claim(&self, real: IdRegisters) -> Option<&'static str> {
        let [mmfr0, mmfr1, _] = self.mmfr;
        let claimed = IdRegisters { mmfr0: mmfr0.over(real.mmfr0), mmfr1: mmfr1.over(real.mmfr1), ..real };
        let granule = |size: PageSize| {
            let known = |cpu: IdRegisters| u8::from(cpu.has_granule(size)) + u8::from(cpu.has_lpa2(size));
            known(claimed) > known(real)
        };
        let table = [
            ("the 4K granule, or its LPA2", granule(PageSize::Size4K)),
            ("the 16K granule, or its LPA2", granule(PageSize::Size16K)),
            ("the 64K granule", granule(PageSize::Size64K)),
            (
                "hardware updates of the access flag or dirty state",
                HARDWARE_UPDATES.get(claimed.mmfr1) > HARDWARE_UPDATES.get(real.mmfr1),
            ),
            ("physical addresses of so many bits", claimed.physical_range() > real.physical_range()),
        ];
        table.into_iter().find(|(_, is_false)| *is_false).map(|(what, _)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QEMU's max.
    const MAX: [u64; 3] = [0x0000_0323_1020_1126, 0x0000_0110_1021_1122, 0x1021_0110_1001_1011];
    const BBM: u64 = 0xf << 52;

    fn with_mmfr(index: usize, value: u64, mask: u64) -> Identity {
        let mut identity = Identity::default();
        identity.mmfr[index] = Overlay { value, mask };
        identity
    }

    const fn id([mmfr0, mmfr1, mmfr2]: [u64; 3]) -> IdRegisters {
        IdRegisters { pfr0: 0, isar0: 0, isar1: 0, mmfr0, mmfr1, mmfr2 }
    }

    #[test]
    fn a_field_is_laid_over_and_the_rest_stays() {
        let no_bbm = with_mmfr(2, 0, BBM);
        let seen = no_bbm.seen(Register::MMFR2, MAX[2], 6);
        assert_eq!(seen, MAX[2] & !BBM & !(0xf << 40), "BBM, and FWB which is EL2's");
        assert_eq!(no_bbm.seen(Register { crm: 6, op2: 0 }, MAX[2], 6), MAX[2]);
    }

    #[test]
    fn el2_is_not_seen_and_physical_addresses_are_cut_to_what_stage_2_has() {
        let truth = Identity::default();
        assert_eq!(truth.seen(Register { crm: 4, op2: 0 }, 0x110_222, 6), 0x110_022);
        assert_eq!(truth.seen(Register::MMFR0, MAX[0], 5) & 0xf, 5);
        assert_eq!(truth.seen(Register::MMFR0, MAX[0] & !0xf | 2, 5) & 0xf, 2);
        assert_eq!(with_mmfr(0, 6, 0xf).seen(Register::MMFR0, MAX[0], 5) & 0xf, 5, "whatever is claimed");
    }

    /// SME and FPMR are the guest's: `prepare_el1` and `configure` leave them no trap. GCS, THE and PFAR have theirs.
    #[test]
    fn what_el2_lets_pass_is_seen_and_what_it_traps_is_not() {
        let truth = Identity::default();
        let (gcs, the, pfar, sme) = (1 << 44, 1 << 48, 1 << 60, 2 << 24);
        assert_eq!(truth.seen(Register { crm: 4, op2: 1 }, pfar | the | gcs | sme, 6), sme);
        let fpmr = 1 << 32;
        assert_eq!(truth.seen(Register { crm: 4, op2: 2 }, fpmr, 6), fpmr);
        let counting = 9 << 8;
        assert_eq!(truth.seen(Register { crm: 5, op2: 0 }, counting | 1 << 16 | 1 << 24, 6), counting);
        assert_eq!(truth.seen(Register { crm: 5, op2: 1 }, !0, 6), 0xfff0_0f00_0000_00ff);
    }

    #[test]
    fn what_a_cpu_cannot_do_is_no_claim() {
        const A72: IdRegisters = id([0x1124, 0, 0]);
        assert_eq!(with_mmfr(2, 2 << 52, BBM).false_claim(A72), None, "a level of BBM is a promise, not an ability");
        assert_eq!(with_mmfr(0, 0xf << 28, 0xf << 28).false_claim(A72), None, "without 4K");
        assert!(with_mmfr(0, 1 << 20, 0xf << 20).false_claim(A72).is_some_and(|what| what.contains("16K")));
        assert!(with_mmfr(0, 1 << 28, 0xf << 28).false_claim(A72).is_some_and(|what| what.contains("4K")));
        assert!(with_mmfr(1, 2, 0xf).false_claim(A72).is_some_and(|what| what.contains("access flag")));
        assert!(with_mmfr(0, 6, 0xf).false_claim(A72).is_some_and(|what| what.contains("physical")));
        assert_eq!(with_mmfr(0, 0, 0xf << 20).false_claim(id(MAX)), None, "without 16K");
        assert_eq!(Identity::default().false_claim(id(MAX)), None);
    }
}
