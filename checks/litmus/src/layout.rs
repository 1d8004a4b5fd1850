//! Where code and default tables are, and what the registers are at the start.

use machine::registers::{HCR_VM, Register, SCTLR_M};

use crate::tables::PAGE;

/// Code of thread 0; that of each further thread is this far away.
pub const CODE: u64 = 0x0100_0000;
/// Bytes for the code of one thread.
pub const CODE_STRIDE: u64 = 16 * PAGE;
/// Root of the default stage-1 table.
pub const STAGE1: u64 = 0x1000_0000;
/// Root of the default stage-2 table.
pub const STAGE2: u64 = 0x1100_0000;
/// Virtual addresses of names. All names are in one gigabyte: some tests ask for the level-2 descriptor of a virtual
/// address in a stage-2 table.
pub const VIRTUAL: u64 = 0x8000_0000;
/// Intermediate physical addresses of names.
pub const INTERMEDIATE: u64 = 0x9000_0000;
/// Physical addresses of names.
pub const PHYSICAL: u64 = 0xa000_0000;

/// 48-bit inputs, 4 KiB granule, 48-bit outputs, 16-bit ASIDs; TTBR1 is not walked.
pub const TCR_EL1: u64 = 16 | 1 << 23 | 5 << 32 | 1 << 36;
/// TCR_EL1.HA and HD.
pub const TCR_HARDWARE: (u64, u64) = (1 << 39, 1 << 40);
const TCR_EL1_NO_WALKS: u64 = 1 << 7;
const TCR_EL2: u64 = 16 | 5 << 16;
/// 48-bit inputs from level 0, 16-bit VMIDs.
const VTCR_EL2: u64 = 16 | 2 << 6 | 5 << 16 | 1 << 19;

/// What a thread's translation is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// TTBR0_EL1.
    pub ttbr0_el1: u64,
    /// TCR_EL1.
    pub tcr_el1: u64,
    /// MAIR_EL1.
    pub mair_el1: u64,
    /// VTTBR_EL2, if stage 2 is on.
    pub vttbr_el2: Option<u64>,
    /// TTBR0_EL2, if the MMU of EL2 is on.
    pub ttbr0_el2: Option<u64>,
}

impl Translation {
    /// The writes, in an order in which no context is live before all of it is in place.
    pub fn writes(&self) -> Vec<(Register, u64)> {
        let mut writes = vec![
            (Register::MairEl1, self.mair_el1),
            (Register::Ttbr0El1, self.ttbr0_el1),
            (Register::TcrEl1, self.tcr_el1 | TCR_EL1_NO_WALKS),
            (Register::SctlrEl1, SCTLR_M),
        ];
        if let Some(vttbr) = self.vttbr_el2 {
            writes.extend([(Register::VtcrEl2, VTCR_EL2), (Register::VttbrEl2, vttbr), (Register::HcrEl2, HCR_VM)]);
        }
        writes.push((Register::TcrEl1, self.tcr_el1));
        if let Some(ttbr) = self.ttbr0_el2 {
            let el2 = [(Register::MairEl2, self.mair_el1), (Register::TcrEl2, TCR_EL2), (Register::Ttbr0El2, ttbr)];
            writes.extend(el2);
            writes.push((Register::SctlrEl2, SCTLR_M));
        }
        writes
    }
}
