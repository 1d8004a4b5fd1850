// data: the fields of permission registers, from the manual's register descriptions (D23.2).
//! PIR, PIRE0, POR, S2PIR and S2POR: sixteen permissions, of which a descriptor names one.

use super::{Field, Register, Values};
use crate::rights::{self, Encodings};

const NAMES: [&str; 16] = [
    "Perm0", "Perm1", "Perm2", "Perm3", "Perm4", "Perm5", "Perm6", "Perm7", "Perm8", "Perm9", "Perm10", "Perm11",
    "Perm12", "Perm13", "Perm14", "Perm15",
];

const fn fields(purpose: &'static str, names: &'static [(u64, &'static str)]) -> [Field; 16] {
    let mut fields = [Field { name: "", high: 0, low: 0, purpose, values: Values::Names(names) }; 16];
    let mut index = 0;
    while index < 16 {
        let low = index as u8 * 4;
        fields[15 - index] = Field { name: NAMES[index], high: low + 3, low, ..fields[index] };
        index += 1;
    }
    fields
}

macro_rules! registers {
    ($($(#[$doc:meta])* $name:ident, $purpose:literal, $encodings:ident;)*) => { $(
        $(#[$doc])*
        pub const $name: Register = Register {
            name: stringify!($name),
            section: concat!("D23.2, ", stringify!($name)),
            fields: &const {
                const ENCODINGS: &Encodings = &rights::$encodings;
                fields($purpose, &const { rights::names(ENCODINGS) })
            },
        };
    )* };
}

registers! {
    /// PIR_EL1: what EL1 may do with leaves by their PIIndex. PIR_EL2 is the same for EL2.
    PIR_EL1, "privileged, leaves with this PIIndex", BASE;
    /// PIRE0_EL1: what EL0 may do with leaves by their PIIndex. PIRE0_EL2 is the same in EL2&0.
    PIRE0_EL1, "unprivileged, leaves with this PIIndex", BASE;
    /// POR_EL1: what EL1 may do at most with leaves by their POIndex. POR_EL2 is the same for EL2.
    POR_EL1, "privileged, at most, leaves with this POIndex", OVERLAY;
    /// POR_EL0: what EL0 may do at most with leaves by their POIndex.
    POR_EL0, "unprivileged, at most, leaves with this POIndex", OVERLAY;
    /// S2PIR_EL2: what stage 2 lets a guest do with leaves by their PIIndex.
    S2PIR_EL2, "stage 2, leaves with this PIIndex", STAGE2;
    /// S2POR_EL1: what stage 2 lets a guest do at most with leaves by their POIndex.
    S2POR_EL1, "stage 2, at most, leaves with this POIndex", STAGE2;
}
