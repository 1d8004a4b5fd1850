//! What a CPU must have to translate as the boot CPU chose, and the words for what is missing.

use thiserror::Error;
use vmsa::{IdRegisters, Layout, PageSize};

use super::Choice;

/// What was chosen, as far as a CPU may lack it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirement {
    page_size: PageSize,
    is_lpa2: bool,
    /// 52 bits of virtual address with 64K pages.
    is_lva: bool,
    /// The least of ID_AA64MMFR0_EL1.PARange: TCR_EL1.IPS must not exceed it (D8.2.6).
    physical_range_min: u8,
}

/// What a CPU lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Lack {
    /// The granule.
    #[error("it has no {0} granule")]
    Granule(PageSize),
    /// 52-bit addresses with this granule (FEAT_LPA2).
    #[error("it has no 52-bit addresses with {0} pages (LPA2), which are in use")]
    Lpa2(PageSize),
    /// 52 bits of virtual address with 64K pages (FEAT_LVA).
    #[error("it has no 52 bits of virtual address with 64K pages (LVA), which are in use")]
    Lva,
    /// Physical addresses wide enough: its bits, and the bits wanted.
    #[error("it has {0} bits of physical address, expected {1} as the boot CPU uses")]
    Physical(u32, u32),
}

impl Requirement {
    /// What was chosen, for a kernel that runs with this value of TCR_EL1.IPS.
    pub fn new(choice: &Choice, output_range: u8) -> Self {
        Self {
            page_size: choice.page_size,
            is_lpa2: choice.layout == Layout::Lpa2,
            is_lva: choice.page_size == PageSize::Size64K && choice.virtual_bits > 48,
            physical_range_min: output_range,
        }
    }

    /// What a CPU lacks; `None` for one that may join.
    pub fn missing(&self, cpu: &IdRegisters) -> Option<Lack> {
        let size = self.page_size;
        let wanted = IdRegisters { mmfr0: self.physical_range_min.into(), ..IdRegisters::default() };
        if !cpu.has_granule(size) {
            return Some(Lack::Granule(size));
        }
        if self.is_lpa2 && !cpu.has_lpa2(size) {
            return Some(Lack::Lpa2(size));
        }
        if cpu.physical_range() < self.physical_range_min {
            return Some(Lack::Physical(cpu.output_bits(), wanted.output_bits()));
        }
        (self.is_lva && cpu.largest_input_bits(PageSize::Size64K) < 52).then_some(Lack::Lva)
    }
}
