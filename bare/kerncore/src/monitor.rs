//! The monitor beneath a kernel, as the kernel asks for it: functions of the vendor-specific hypervisor service (Arm DEN 0028).

/// The function that gives the service's UID.
pub const UID_FUNCTION: u32 = 0x8600_ff01;
/// The UID of our monitor, as the registers W0 to W3 carry it (RFC 4122, version 4):
/// 5f7e0c5a-93d1-4b7c-8d2e-76656c6c756d, whose last six bytes read `vellum`.
pub const UID: [u64; 4] = [0x5f7e_0c5a, 0x93d1_4b7c, 0x8d2e_7665, 0x6c6c_756d];

/// The function that gives what else the monitor does, a bit each.
pub const FEATURES_FUNCTION: u32 = 0xc600_0004;
/// An invalidation of everything by EL1 (VMALLE1, VMALLE1IS, VMALLE1OS) is executed as one of both stages (VMALLS12E1 and so on), which
/// is sure to end a TLB conflict (RBLRKC).
pub const ENDS_CONFLICTS: u64 = 1;

/// Whether an answer to [`UID_FUNCTION`] is our monitor's.
pub fn is_ours(answer: [u64; 4]) -> bool {
    answer.map(|word| word & 0xffff_ffff) == UID
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_count_and_nothing_above_them() {
        assert!(is_ours(UID));
        assert!(is_ours(UID.map(|word| word | 0xabcd << 32)));
        // NOT_SUPPORTED, and a service with another UID.
        assert!(!is_ours([u64::MAX, 0, 0, 0]));
        assert!(!is_ours([UID[0], UID[1], UID[2], UID[3] + 1]));
    }
}
