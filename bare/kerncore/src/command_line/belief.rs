//! What a CPU is made to believe of itself, in ID registers: for tests of mismatched CPUs on machines that have none.

use vmsa::{IdRegisters, PageSize};

use super::cpu::CpuOverride;

/// Where ID_AA64MMFR0_EL1 has a granule's field, and what stands there for a granule that is missing, or there with
/// nothing more.
const fn granule_field(size: PageSize) -> (u32, u64, u64) {
    match size {
        PageSize::Size4K => (28, 15, 0),
        PageSize::Size16K => (20, 0, 1),
        PageSize::Size64K => (24, 15, 0),
    }
}

/// Where ID_AA64MMFR2_EL1 has the level of FEAT_BBM.
const BBM: u32 = 52;
/// What ID_AA64MMFR0_EL1.PARange can say, and the bits it means.
const PHYSICAL_RANGES: [u32; 7] = [32, 36, 40, 42, 44, 48, 52];

/// Bits of a register that are replaced whatever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Bits that lose their value.
    pub clear: u64,
    /// Bits that are set then.
    pub set: u64,
}

impl Replaced {
    fn with_field(self, low: u32, value: u64) -> Self {
        Self { clear: self.clear | 15 << low, set: self.set & !(15 << low) | value << low }
    }

    fn of(self, register: u64) -> u64 {
        register & !self.clear | self.set
    }
}

impl CpuOverride {
    /// Bits of ID_AA64MMFR0_EL1 that are replaced: granules that are taken away, and the size of physical addresses. A
    /// granule that is given, and there already, stays as it is, so that it keeps its LPA2.
    pub fn mmfr0(&self) -> Replaced {
        let mut replaced = Replaced::default();
        for size in PageSize::ALL {
            if self.granules.is_some_and(|granules| !granules.contains(size)) {
                let (low, missing, _) = granule_field(size);
                replaced = replaced.with_field(low, missing);
            }
        }
        let range = self.physical_bits.and_then(|bits| PHYSICAL_RANGES.iter().position(|range| *range == bits));
        range.map_or(replaced, |range| replaced.with_field(0, range as u64))
    }

    /// Whether the CPU is to have this granule, be it there or not.
    pub fn claims(&self, size: PageSize) -> bool {
        self.granules.is_some_and(|granules| granules.contains(size))
    }

    /// What a CPU with these registers believes.
    pub fn believe(&self, cpu: IdRegisters) -> IdRegisters {
        let mut believed = IdRegisters { mmfr0: self.mmfr0().of(cpu.mmfr0), ..cpu };
        for size in PageSize::ALL {
            if self.claims(size) && !cpu.has_granule(size) {
                let (low, _, plain) = granule_field(size);
                believed.mmfr0 = Replaced::default().with_field(low, plain).of(believed.mmfr0);
            }
        }
        if let Some(level) = self.bbm {
            believed.mmfr2 = Replaced::default().with_field(BBM, level as u64).of(believed.mmfr2);
        }
        believed
    }
}
