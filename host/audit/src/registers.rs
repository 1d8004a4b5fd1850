//! What a CPU's ID registers announce, in the machine's words.

use machine::registers::{Ets, Features};

/// ID registers by name; one that QEMU does not show is zero.
pub const NAMES: [&str; 6] = [
    "ID_AA64MMFR0_EL1",
    "ID_AA64MMFR1_EL1",
    "ID_AA64MMFR2_EL1",
    "ID_AA64ISAR0_EL1",
    "ID_AA64ISAR1_EL1",
    "ID_AA64PFR0_EL1",
];

/// The features in the values of [`NAMES`].
pub fn features(values: [u64; NAMES.len()], has_el2: bool) -> Features {
    let [mmfr0, mmfr1, mmfr2, isar0, isar1, _] = values;
    let field = |value: u64, low: u8| value >> low & 15;
    let output_bits = [32, 36, 40, 42, 44, 48, 52, 52][(field(mmfr0, 0) & 7) as usize];
    Features {
        bbm: field(mmfr2, 52).min(3) as u8,
        access_flag: field(mmfr1, 0) >= 1,
        dirty_state: field(mmfr1, 0) >= 2,
        ets: match field(mmfr1, 36) {
            0 | 1 => Ets::None,
            2 => Ets::Ets2,
            _ => Ets::Ets3,
        },
        // QEMU does not show ID_AA64ISAR0_EL1; both features are of Armv8.4.
        range_tlbi: field(isar0, 56) >= 2 || field(mmfr2, 48) >= 1,
        ttl: field(mmfr2, 48) >= 1,
        xs: field(isar1, 56) >= 1,
        // Both granules have it, or the machine is told of neither.
        lpa2: field(mmfr0, 28) == 1 || field(mmfr0, 20) == 2,
        lpa: field(mmfr2, 16) >= 1 && output_bits == 52,
        no_physical_index: field(mmfr1, 48) >= 1,
        common_not_private: field(mmfr2, 0) >= 1,
        output_bits,
        el2: has_el2,
        repeat_tlbi: false,
        orders_writes: false,
    }
}

/// Them as a line of a trace has them.
pub fn fields(features: &Features) -> String {
    let marks = u8::from(features.access_flag) + u8::from(features.dirty_state);
    let ets = [0, 2, 3][features.ets as usize];
    let sizes = [32, 36, 40, 42, 44, 48, 52];
    let parange = sizes.iter().position(|bits| *bits == features.output_bits).unwrap_or(5);
    let bit = u8::from;
    format!(
        "bbm={} hafdbs={marks} ets={ets} tlb={} ttl={} xs={} cnp={} lpa={} lpa2={} repeat={} ordered={} parange={parange}",
        features.bbm,
        2 * bit(features.range_tlbi),
        bit(features.ttl),
        bit(features.xs),
        bit(features.common_not_private),
        bit(features.lpa),
        bit(features.lpa2),
        bit(features.repeat_tlbi),
        bit(features.orders_writes),
    )
}
