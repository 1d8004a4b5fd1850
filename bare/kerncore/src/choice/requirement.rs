//! What a CPU must have to translate as the boot CPU chose: fields of its ID registers, which it compares itself before
//! its MMU is on, and the words for what is missing.

use thiserror::Error;
use vmsa::{IdRegisters, Layout, PageSize};

use super::Choice;

/// Fields of ID_AA64MMFR0_EL1 and ID_AA64MMFR2_EL1, and what they must say at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirement {
    /// The granule.
    pub page_size: PageSize,
    /// The lowest bit of its field in ID_AA64MMFR0_EL1.
    pub granule_shift: u32,
    /// What that field says of a granule without LPA2.
    pub granule_plain: u8,
    /// The least that will do.
    pub granule_min: u8,
    /// The least of ID_AA64MMFR0_EL1.PARange: TCR_EL1.IPS must not exceed it (D8.2.6).
    pub physical_range_min: u8,
    /// The least of ID_AA64MMFR2_EL1.VARange.
    pub virtual_range_min: u8,
}

/// Above this a granule's field means that it is missing.
pub const GRANULE_MAX: u8 = 7;

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
        let is_lpa2 = u8::from(choice.layout == Layout::Lpa2);
        let (granule_shift, granule_plain) = match choice.page_size {
            PageSize::Size4K => (28, 0),
            PageSize::Size16K => (20, 1),
            PageSize::Size64K => (24, 0),
        };
        let is_lva = choice.page_size == PageSize::Size64K && choice.virtual_bits > 48;
        Self {
            page_size: choice.page_size,
            granule_shift,
            granule_plain,
            granule_min: granule_plain + is_lpa2,
            physical_range_min: output_range,
            virtual_range_min: is_lva.into(),
        }
    }

    /// What a CPU lacks; `None` for one that may join.
    pub fn missing(&self, cpu: &IdRegisters) -> Option<Lack> {
        let size = self.page_size;
        let wanted = IdRegisters { mmfr0: self.physical_range_min.into(), ..IdRegisters::default() };
        if !cpu.has_granule(size) {
            return Some(Lack::Granule(size));
        }
        if self.granule_min > self.granule_plain && !cpu.has_lpa2(size) {
            return Some(Lack::Lpa2(size));
        }
        if cpu.physical_range() < self.physical_range_min {
            return Some(Lack::Physical(cpu.output_bits(), wanted.output_bits()));
        }
        (self.virtual_range_min > 0 && cpu.largest_input_bits(PageSize::Size64K) < 52).then_some(Lack::Lva)
    }
}
