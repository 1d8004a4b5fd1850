//! Calls to firmware, by the SMC Calling Convention (Arm DEN 0028): which function is meant, and what the answers are.

use kerncore::monitor::{FEATURES_FUNCTION, UID_FUNCTION};
use kerncore::ring::PRINT_FUNCTION;

/// A function that the monitor knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// PSCI (Arm DEN 0022).
    Psci(Psci),
    /// SMCCC_VERSION.
    ConventionVersion,
    /// SMCCC_ARCH_FEATURES, with the function that is asked about.
    ConventionFeatures(u32),
    /// The monitor's own.
    Monitor(Monitor),
    /// None of these: answered by [`NOT_SUPPORTED`].
    Unknown,
}

/// The functions of PSCI that are answered, with their arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Psci {
    /// PSCI_VERSION.
    Version,
    /// CPU_SUSPEND.
    CpuSuspend,
    /// CPU_OFF.
    CpuOff,
    /// CPU_ON.
    CpuOn {
        /// The CPU's affinity.
        affinity: u64,
        /// Where it starts, in intermediate physical memory.
        entry: u64,
        /// What it finds in x0.
        argument: u64,
    },
    /// AFFINITY_INFO.
    AffinityInfo {
        /// The CPU's affinity.
        affinity: u64,
        /// The lowest level that is meant; only 0 is known.
        level: u64,
    },
    /// MIGRATE_INFO_TYPE.
    MigrateInfoType,
    /// SYSTEM_OFF.
    SystemOff,
    /// SYSTEM_RESET.
    SystemReset,
    /// PSCI_FEATURES, with the function that is asked about.
    Features(u32),
}

/// The monitor's own functions, of the vendor-specific hypervisor service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Monitor {
    /// The service's UID, by which a guest knows this monitor from others.
    Uid,
    /// The service's revision.
    Revision,
    /// Ends the machine with this exit status.
    Exit(u32),
    /// Announces that leaves of a range of virtual addresses, start and end, change size while they are live: until the
    /// end is announced, TLB conflict aborts may come there.
    BeginResize(u64, u64),
    /// Announces that every TLB has forgotten what such a range was.
    EndResize(u64, u64),
    /// What else the monitor does: [`ENDS_CONFLICTS`].
    Features,
    /// Prints what is in the ring at this address, which a realm shares.
    PrintRing(u64),
}

/// The version of PSCI that is answered: 1.1.
pub const PSCI_VERSION: u64 = 0x1_0001;
/// The version of the calling convention that is answered: 1.1.
pub const CONVENTION_VERSION: u64 = 0x1_0001;
/// The same where the guest is a realm: 1.2.
pub const CONVENTION_VERSION_OF_REALMS: u64 = 0x1_0002;
/// The revision of the monitor's own functions, major and minor.
pub const REVISION: [u64; 2] = [0, 3];
/// The UID of the monitor's own functions.
pub use kerncore::monitor::{ENDS_CONFLICTS, UID};

/// The answer to a function that is not there.
pub const NOT_SUPPORTED: u64 = -1i64 as u64;
/// PSCI's SUCCESS.
pub const SUCCESS: u64 = 0;
/// PSCI's INVALID_PARAMETERS.
pub const INVALID_PARAMETERS: u64 = -2i64 as u64;
/// PSCI's DENIED.
pub const DENIED: u64 = -3i64 as u64;
/// PSCI's ALREADY_ON.
pub const ALREADY_ON: u64 = -4i64 as u64;
/// PSCI's ON_PENDING.
pub const ON_PENDING: u64 = -5i64 as u64;
/// PSCI's INTERNAL_FAILURE.
pub const INTERNAL_FAILURE: u64 = -6i64 as u64;
/// PSCI's INVALID_ADDRESS.
pub const INVALID_ADDRESS: u64 = -9i64 as u64;
/// MIGRATE_INFO_TYPE's answer: there is no trusted operating system to migrate.
pub const NO_TRUSTED_OS: u64 = 2;

impl Call {
    /// Decodes a call from x0 and on, made by an instruction whose immediate was `immediate`: the convention knows no
    /// other than 0.
    pub fn decode(immediate: u32, arguments: &[u64; 4]) -> Self {
        let function = arguments[0] as u32;
        // Functions of the 32-bit convention take the lower halves of their registers.
        let is_64_bit = function >> 30 & 1 == 1;
        let argument = |index: usize| if is_64_bit { arguments[index] } else { arguments[index] & 0xffff_ffff };
        if immediate != 0 {
            return Self::Unknown;
        }
        match function {
            0x8000_0000 => Self::ConventionVersion,
            0x8000_0001 => Self::ConventionFeatures(argument(1) as u32),
            UID_FUNCTION => Self::Monitor(Monitor::Uid),
            0x8600_ff03 => Self::Monitor(Monitor::Revision),
            0xc600_0001 => Self::Monitor(Monitor::Exit(argument(1) as u32)),
            0xc600_0002 => Self::Monitor(Monitor::BeginResize(argument(1), argument(2))),
            0xc600_0003 => Self::Monitor(Monitor::EndResize(argument(1), argument(2))),
            FEATURES_FUNCTION => Self::Monitor(Monitor::Features),
            PRINT_FUNCTION => Self::Monitor(Monitor::PrintRing(argument(1))),
            _ => Psci::decode(function, argument).map_or(Self::Unknown, Self::Psci),
        }
    }

    /// What PSCI_FEATURES answers of a function: those of PSCI, and SMCCC_VERSION, by which the convention is found.
    pub fn psci_feature(function: u32) -> u64 {
        match Self::decode(0, &[function.into(), 0, 0, 0]) {
            Self::Psci(_) | Self::ConventionVersion => SUCCESS,
            _ => NOT_SUPPORTED,
        }
    }

    /// What SMCCC_ARCH_FEATURES answers of a function.
    pub fn convention_feature(function: u32) -> u64 {
        match Self::decode(0, &[function.into(), 0, 0, 0]) {
            Self::ConventionVersion | Self::ConventionFeatures(_) => SUCCESS,
            _ => NOT_SUPPORTED,
        }
    }
}

impl Psci {
    fn decode(function: u32, argument: impl Fn(usize) -> u64) -> Option<Self> {
        Some(match function {
            0x8400_0000 => Self::Version,
            0x8400_0001 | 0xc400_0001 => Self::CpuSuspend,
            0x8400_0002 => Self::CpuOff,
            0x8400_0003 | 0xc400_0003 => {
                Self::CpuOn { affinity: argument(1), entry: argument(2), argument: argument(3) }
            }
            0x8400_0004 | 0xc400_0004 => Self::AffinityInfo { affinity: argument(1), level: argument(2) },
            0x8400_0006 => Self::MigrateInfoType,
            0x8400_0008 => Self::SystemOff,
            0x8400_0009 => Self::SystemReset,
            0x8400_000a => Self::Features(argument(1) as u32),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_numbers_of_their_documents() {
        let call = |function: u64| Call::decode(0, &[function, 0x1_0000_0002, 0x3, 0x4]);
        assert_eq!(call(0x8400_0000), Call::Psci(Psci::Version));
        assert_eq!(call(0xc400_0003), Call::Psci(Psci::CpuOn { affinity: 0x1_0000_0002, entry: 3, argument: 4 }));
        assert_eq!(call(0x8400_0003), Call::Psci(Psci::CpuOn { affinity: 2, entry: 3, argument: 4 }));
        assert_eq!(call(0x8400_000a), Call::Psci(Psci::Features(2)));
        assert_eq!(call(0x8000_0000), Call::ConventionVersion);
        assert_eq!(call(0xc600_0001), Call::Monitor(Monitor::Exit(2)));
        assert_eq!(call(0xc600_0004), Call::Monitor(Monitor::Features));
        assert_eq!(call(0xc600_0005), Call::Monitor(Monitor::PrintRing(0x1_0000_0002)));
    }

    #[test]
    fn what_is_no_function_is_unknown() {
        // Functions of 64 bits that exist only in 32, yielding calls, other owners, and another immediate.
        for function in [0xc400_0000, 0xc400_0008, 0x0400_0000, 0x8500_0000, 0x8400_0005, 0, u64::MAX] {
            assert_eq!(Call::decode(0, &[function, 0, 0, 0]), Call::Unknown, "{function:#x}");
            assert_eq!(Call::psci_feature(function as u32), NOT_SUPPORTED);
        }
        assert_eq!(Call::decode(1, &[0x8400_0000, 0, 0, 0]), Call::Unknown);
    }

    #[test]
    fn features_are_told_by_their_owner() {
        for (function, psci, convention) in [
            (0x8400_0000, SUCCESS, NOT_SUPPORTED),
            (0xc400_0003, SUCCESS, NOT_SUPPORTED),
            (0x8000_0000, SUCCESS, SUCCESS),
            (0x8000_0001, NOT_SUPPORTED, SUCCESS),
            (0x8000_8000, NOT_SUPPORTED, NOT_SUPPORTED),
            (0xc600_0001, NOT_SUPPORTED, NOT_SUPPORTED),
        ] {
            assert_eq!(Call::psci_feature(function), psci, "{function:#x}");
            assert_eq!(Call::convention_feature(function), convention, "{function:#x}");
        }
    }

    #[test]
    fn the_upper_half_of_the_function_does_not_count() {
        assert_eq!(Call::decode(0, &[0xffff_ffff_8400_0000, 0, 0, 0]), Call::Psci(Psci::Version));
    }
}
