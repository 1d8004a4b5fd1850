//! What a CPU is made to believe of itself, in ID registers: for tests of mismatched CPUs on machines that have none.

use vmsa::fields::{Field, ID_AA64MMFR0_EL1, ID_AA64MMFR2_EL1};
use vmsa::{IdRegisters, PageSize};

use super::cpu::CpuOverride;

/// The field of each granule in ID_AA64MMFR0_EL1, and what stands there for a granule that is missing, or there with nothing
/// more.
const GRANULES: [(PageSize, Field, u64, u64); 3] = [
    (PageSize::Size4K, ID_AA64MMFR0_EL1.the("TGran4"), 15, 0),
    (PageSize::Size16K, ID_AA64MMFR0_EL1.the("TGran16"), 0, 1),
    (PageSize::Size64K, ID_AA64MMFR0_EL1.the("TGran64"), 15, 0),
];

const BBM: Field = ID_AA64MMFR2_EL1.the("BBM");
const PHYSICAL_RANGE: Field = ID_AA64MMFR0_EL1.the("PARange");
/// What that field can say, as bits of address.
const PHYSICAL_RANGES: [u32; 7] = [32, 36, 40, 42, 44, 48, 52];

fn replace(register: &mut u64, field: Field, value: u64) {
    *register = *register & !field.mask() | field.put(value);
}

impl CpuOverride {
    /// What a CPU with these registers believes. A granule that is given, and there already, stays as it is, so that it keeps
    /// its LPA2.
    pub fn believe(&self, cpu: IdRegisters) -> IdRegisters {
        let mut believed = cpu;
        for (size, field, missing, plain) in GRANULES {
            match (self.granules.map(|granules| granules.contains(size)), cpu.has_granule(size)) {
                (Some(true), false) => replace(&mut believed.mmfr0, field, plain),
                (Some(false), _) => replace(&mut believed.mmfr0, field, missing),
                _ => {}
            }
        }
        let range = self.physical_bits.and_then(|bits| PHYSICAL_RANGES.iter().position(|range| *range == bits));
        if let Some(range) = range {
            replace(&mut believed.mmfr0, PHYSICAL_RANGE, range as u64);
        }
        if let Some(level) = self.bbm {
            replace(&mut believed.mmfr2, BBM, level as u64);
        }
        believed
    }
}
