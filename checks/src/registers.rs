//! What the registers of a scenario's machine hold.

use machine::registers::{HCR_E2H, HCR_TGE, HCR_VM, Register, SCTLR_M};
use vmsa::registers::{El2Control, Stage2Control, encode_vttbr};
use vmsa::{AddressHalf, Layout, Level, PageSize, PhysAddr};

use crate::parameters::{ASID, Parameters};
use crate::setting::{Setting, VMID};

/// MAIR: 0 is Normal write-back, 1 Device-nGnRnE, 2 Normal non-cacheable.
const MAIR: u64 = 0x0044_00ff;
/// A table of zeros, and the ASID or VMID that goes with it.
pub(crate) const EMPTY: u64 = 0x8_0000_0000;
pub(crate) const RESERVED_TAG: u16 = 0xff;
/// The guest's TCR_EL1: 39 bits of the lower half, 4 KiB granule, inner shareable, 48 bits of output.
const GUEST_TCR: u64 = 25 | 3 << 12 | 1 << 23 | 5 << 32;

impl Parameters {
    /// TCR_EL1, or TCR_EL2 of EL2&0, for the half that is used, the other half's walks switched off. (D24.2)
    fn tcr(&self) -> u64 {
        let size = 64 - u64::from(self.input_bits);
        let (low, other, granule) = match (self.half, self.page_size) {
            (AddressHalf::Lower, PageSize::Size4K) => (0, 16, 0),
            (AddressHalf::Lower, PageSize::Size16K) => (0, 16, 2 << 14),
            (AddressHalf::Lower, PageSize::Size64K) => (0, 16, 1 << 14),
            (AddressHalf::Upper, PageSize::Size4K) => (16, 0, 2 << 30),
            (AddressHalf::Upper, PageSize::Size16K) => (16, 0, 1 << 30),
            (AddressHalf::Upper, PageSize::Size64K) => (16, 0, 3 << 30),
        };
        let output_size = if self.layout == Layout::Bits48 { 5 } else { 6 };
        let inner_shareable = 3 << (low + 12);
        let switched_off = 1 << (other + 7);
        size << low
            | granule
            | inner_shareable
            | switched_off
            | 16 << other
            | output_size << 32
            | 1 << 36
            | u64::from(self.hardware.0) << 39
            | u64::from(self.hardware.1) << 40
            | u64::from(self.layout == Layout::Lpa2) << 59
    }

    /// Registers that say how to translate, in the order in which they are written.
    pub(crate) fn controls(&self) -> Vec<(Register, u64)> {
        match self.setting {
            Setting::El1 => vec![(Register::MairEl1, MAIR), (Register::TcrEl1, self.tcr())],
            Setting::El2 => vec![(Register::MairEl2, MAIR), (Register::TcrEl2, self.el2_tcr())],
            Setting::El2And0 => {
                vec![(Register::HcrEl2, HCR_E2H | HCR_TGE), (Register::MairEl2, MAIR), (Register::TcrEl2, self.tcr())]
            }
            Setting::Stage2 => vec![(Register::VtcrEl2, self.vtcr())],
            Setting::Guest => vec![
                (Register::VtcrEl2, self.vtcr()),
                (Register::MairEl1, MAIR),
                (Register::TcrEl1, GUEST_TCR),
                (Register::Ttbr0El1, 1 << 48),
            ],
        }
    }

    /// Registers that switch translation on, an ISB after each.
    pub(crate) fn switches(&self) -> Vec<(Register, u64)> {
        match self.setting {
            Setting::El1 => vec![(Register::SctlrEl1, SCTLR_M)],
            Setting::El2 | Setting::El2And0 => vec![(Register::SctlrEl2, SCTLR_M)],
            Setting::Stage2 => vec![(Register::HcrEl2, HCR_VM)],
            Setting::Guest => vec![(Register::HcrEl2, HCR_VM), (Register::SctlrEl1, SCTLR_M)],
        }
    }

    /// Registers that lead to the table at `root`, tagged with an ASID or VMID.
    pub(crate) fn roots(&self, root: u64, tag: u16) -> Vec<(Register, u64)> {
        let asid = u64::from(tag) << 48;
        let two = |lower, upper| match self.half {
            AddressHalf::Lower => vec![(lower, asid | root), (upper, 0)],
            AddressHalf::Upper => vec![(lower, asid), (upper, root)],
        };
        match self.setting {
            Setting::El1 => two(Register::Ttbr0El1, Register::Ttbr1El1),
            Setting::El2And0 => two(Register::Ttbr0El2, Register::Ttbr1El2),
            Setting::El2 => vec![(Register::Ttbr0El2, root)],
            Setting::Stage2 | Setting::Guest => {
                vec![(Register::VttbrEl2, encode_vttbr(self.layout, PhysAddr::new(root), tag, false))]
            }
        }
    }

    /// What to write so that `cpu`, which walks the table at `root`, walks none, and what so that it walks the table again.
    pub(crate) fn parked(&self, root: u64, cpu: u8) -> [Vec<(Register, u64)>; 2] {
        let tag = if self.is_global { self.tag(cpu) } else { RESERVED_TAG };
        let (off, on) = (self.roots(EMPTY, tag), self.roots(root, self.tag(cpu)));
        let (off, on) = off.into_iter().zip(on).filter(|(off, on)| off != on).unzip();
        [off, on]
    }

    /// The tag that `cpu` walks the page table with. CPUs differ in their ASIDs where the table is global.
    pub(crate) fn tag(&self, cpu: u8) -> u16 {
        match self.setting.is_stage2() {
            true => VMID,
            false if self.is_global => u16::from(cpu) + 1,
            false => ASID,
        }
    }

    /// The field for 48 or 52 bits of output.
    const fn output_range(&self) -> u8 {
        if matches!(self.layout, Layout::Bits48) { 5 } else { 6 }
    }

    fn vtcr(&self) -> u64 {
        let control = Stage2Control {
            input_bits: self.input_bits,
            start: self.start.unwrap_or(Level::L1),
            page_size: self.page_size,
            output_range: self.output_range(),
            has_wide_vmids: true,
            sets_access_flag: self.hardware.0,
            manages_dirty_state: self.hardware.1,
            is_lpa2: self.layout == Layout::Lpa2,
        };
        control.encode().unwrap_or_default()
    }

    fn el2_tcr(&self) -> u64 {
        El2Control {
            input_bits: self.input_bits,
            page_size: self.page_size,
            output_range: self.output_range(),
            sets_access_flag: self.hardware.0,
            manages_dirty_state: self.hardware.1,
            is_lpa2: self.layout == Layout::Lpa2,
        }
        .encode()
    }
}
