//! Calls of RSI and the checks of their arguments (Arm DEN 0137, B5.3).

use super::{Answer, ERROR_INPUT, GRANULE_BYTES, SUCCESS, Space, State, VERSION, error};

/// A call whose arguments are right, or one that needs nothing but its arguments to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The answer.
    Answered(Answer),
    /// RSI_REALM_CONFIG: write the configuration to this granule, which is protected.
    Configuration {
        /// On a granule.
        address: u64,
    },
    /// RSI_IPA_STATE_SET: change a protected range. Its flag, whether DESTROYED may change, means nothing here: no
    /// memory is ever destroyed.
    SetState {
        /// On a granule.
        base: u64,
        /// On a granule, above `base`.
        top: u64,
        /// What it is to be.
        state: State,
    },
    /// RSI_IPA_STATE_GET: tell of a protected range.
    GetState {
        /// On a granule.
        base: u64,
        /// On a granule, above `base`.
        top: u64,
    },
    /// RSI_HOST_CALL: the structure at this protected address.
    HostCall {
        /// A multiple of 256.
        address: u64,
    },
}

/// Bytes of the structure of a host call, and its alignment.
const HOST_CALL_BYTES: u64 = 256;

impl Asked {
    /// Decodes a call from x0 to x4. `None` for what is no function of RSI that is answered: measurements and attestation
    /// are not, as there is nothing that could vouch for them.
    pub fn decode(registers: &[u64; 5], space: Space) -> Option<Self> {
        let [function, x1, x2, x3, _flags] = *registers;
        Some(match function as u32 {
            0xc400_0190 => Self::Answered(version(x1)),
            // There are no features: every register of them reads as 0.
            0xc400_0191 => Self::Answered([SUCCESS, 0, 0, 0]),
            0xc400_0196 => match is_granule(x1, space) {
                true => Self::Configuration { address: x1 },
                false => Self::Answered(error(ERROR_INPUT)),
            },
            0xc400_0197 => match State::decode(x3).filter(|_| is_range(x1, x2, space)) {
                Some(state) => Self::SetState { base: x1, top: x2, state },
                None => Self::Answered(error(ERROR_INPUT)),
            },
            0xc400_0198 => match is_range(x1, x2, space) {
                true => Self::GetState { base: x1, top: x2 },
                false => Self::Answered(error(ERROR_INPUT)),
            },
            0xc400_0199 => match x1.is_multiple_of(HOST_CALL_BYTES) && space.is_protected(x1) {
                true => Self::HostCall { address: x1 },
                false => Self::Answered(error(ERROR_INPUT)),
            },
            _ => return None,
        })
    }
}

/// The answer to RSI_VERSION (B5.3.10): a version is compatible if its major part is the same and its minor part no larger.
/// The lower version is the one that was asked for, or else the one there is.
fn version(asked: u64) -> Answer {
    if asked == VERSION { [SUCCESS, VERSION, VERSION, 0] } else { [ERROR_INPUT, VERSION, VERSION, 0] }
}

fn is_granule(address: u64, space: Space) -> bool {
    address.is_multiple_of(GRANULE_BYTES) && space.is_protected(address)
}

fn is_range(base: u64, top: u64, space: Space) -> bool {
    let is_aligned = base.is_multiple_of(GRANULE_BYTES) && top.is_multiple_of(GRANULE_BYTES);
    is_aligned && base < top && top <= space.protected_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 1 << 40;

    fn decode(registers: [u64; 5]) -> Option<Asked> {
        Asked::decode(&registers, Space::new(41).unwrap())
    }

    fn is_refused(registers: [u64; 5]) -> bool {
        decode(registers) == Some(Asked::Answered([1, 0, 0, 0]))
    }

    #[test]
    fn functions_have_the_numbers_of_the_document() {
        assert_eq!(decode([0xc400_0191, 7, 0, 0, 0]), Some(Asked::Answered([0; 4])));
        assert_eq!(decode([0xc400_0196, 0x1000, 0, 0, 0]), Some(Asked::Configuration { address: 0x1000 }));
        let set = Asked::SetState { base: 0x1000, top: 0x3000, state: State::Empty };
        assert_eq!(decode([0xc400_0197, 0x1000, 0x3000, 0, 1]), Some(set));
        let set = Asked::SetState { base: 0, top: END, state: State::Ram };
        assert_eq!(decode([0xc400_0197, 0, END, 1, 0]), Some(set));
        assert_eq!(decode([0xc400_0198, 0x1000, 0x3000, 0, 0]), Some(Asked::GetState { base: 0x1000, top: 0x3000 }));
        assert_eq!(decode([0xc400_0199, 0x1100, 0, 0, 0]), Some(Asked::HostCall { address: 0x1100 }));
    }

    #[test]
    fn measurements_attestation_and_what_lies_around_rsi_are_unknown() {
        for function in [0xc400_018f, 0xc400_0192, 0xc400_0193, 0xc400_0194, 0xc400_0195, 0xc400_019a, 0x8400_0190] {
            assert_eq!(decode([function, 0x1000, 0x2000, 0, 0]), None, "{function:#x}");
        }
    }

    #[test]
    fn the_version_is_one_and_no_other() {
        for (asked, result) in [(0x1_0000, 0), (0x1_0001, 1), (0, 1), (0x2_0000, 1), (1 << 32 | 0x1_0000, 1)] {
            let answer = Asked::Answered([result, 0x1_0000, 0x1_0000, 0]);
            assert_eq!(decode([0xc400_0190, asked, 0, 0, 0]), Some(answer), "{asked:#x}");
        }
    }

    #[test]
    fn addresses_that_are_not_right_are_refused() {
        for address in [8, 0x1008, 0xfff, END, END | 0x1000, 1 << 41, !0xfff, u64::MAX] {
            assert!(is_refused([0xc400_0196, address, 0, 0, 0]), "{address:#x}");
            assert!(is_refused([0xc400_0199, address, 0, 0, 0]), "{address:#x}");
        }
        assert!(is_refused([0xc400_0196, 0x1100, 0, 0, 0]), "a granule, not 256 bytes");
        assert!(is_refused([0xc400_0199, 0x1080, 0, 0, 0]));
    }

    #[test]
    fn ranges_that_are_not_right_are_refused() {
        for (base, top) in [
            (0x1000, 0x1000),
            (0x2000, 0x1000),
            (0x1001, 0x2000),
            (0x1000, 0x2fff),
            (0, END + 0x1000),
            (END, END + 0x1000),
            (END | 0x1000, END | 0x2000),
            (0x1000, 0),
            (!0xfff, 0),
            (0, !0xfff),
        ] {
            assert!(is_refused([0xc400_0197, base, top, 1, 0]), "{base:#x}..{top:#x}");
            assert!(is_refused([0xc400_0198, base, top, 0, 0]), "{base:#x}..{top:#x}");
        }
    }

    #[test]
    fn a_realm_asks_for_empty_or_ram() {
        for state in [2, 3, 255] {
            assert!(is_refused([0xc400_0197, 0x1000, 0x2000, state, 0]), "{state}");
        }
    }
}
