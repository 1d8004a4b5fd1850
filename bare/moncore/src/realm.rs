//! A realm's host: what the Realm Services Interface (RSI, Arm DEN 0137, B5) answers a guest that is a realm.
//!
//! ```text
//! 0                              protected end                            end
//! |  protected: RAM or EMPTY     |  unprotected: an alias of what is EMPTY |
//!
//! SMC ─> Asked: its arguments are right ─> Host: how far it gets ─> States: which pages change
//! ```

mod asked;
mod host;
mod states;

pub use asked::Asked;
pub use host::{Decision, Host, MAX_ADDRESSES, Settings};
pub use states::{State, States};

/// Bytes of a granule, which is the RMM's page and stage 2's.
pub const GRANULE_BYTES: u64 = 4096;

/// RSI_SUCCESS (B5.4.1).
pub const SUCCESS: u64 = 0;
/// RSI_ERROR_INPUT.
pub const ERROR_INPUT: u64 = 1;
/// RSI_ERROR_UNKNOWN.
pub const ERROR_UNKNOWN: u64 = 4;
/// RSI_ACCEPT and RSI_REJECT (B5.4.6).
pub const ACCEPT: u64 = 0;
/// The host rejects a request.
pub const REJECT: u64 = 1;
/// The version of RSI that is answered: 1.0.
pub const VERSION: u64 = 0x1_0000;

/// x0 to x3 after a call. Those that carry no result are 0.
pub type Answer = [u64; 4];

/// An answer that is an error: the results of a call that failed mean nothing.
pub const fn error(code: u64) -> Answer {
    [code, 0, 0, 0]
}

/// The intermediate physical addresses of a realm: their top bit tells unprotected from protected ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// From 33 to 48.
    bits: u32,
}

impl Space {
    /// Addresses of `bits` bits, from 33 to 48.
    pub const fn new(bits: u32) -> Option<Self> {
        if bits < 33 || bits > 48 { None } else { Some(Self { bits }) }
    }

    /// Bits of an address, the top one too.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Where protected addresses end and unprotected ones begin: also the bit between them.
    pub const fn protected_end(self) -> u64 {
        1 << (self.bits - 1)
    }

    /// Whether an address is protected.
    pub const fn is_protected(self, address: u64) -> bool {
        address < self.protected_end()
    }

    /// The protected address whose alias this unprotected one is.
    pub const fn unalias(self, address: u64) -> Option<u64> {
        match address.checked_sub(self.protected_end()) {
            Some(protected) if self.is_protected(protected) => Some(protected),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_bit_is_the_alias() {
        let space = Space::new(41).unwrap();
        assert_eq!(space.protected_end(), 1 << 40);
        assert!(space.is_protected((1 << 40) - 1) && !space.is_protected(1 << 40));
        assert_eq!(space.unalias(1 << 40 | 0x4000_0000), Some(0x4000_0000));
        assert_eq!(space.unalias(0x4000_0000), None);
        assert_eq!(space.unalias(1 << 41 | 0x4000_0000), None, "beyond the space");
        assert_eq!((Space::new(32), Space::new(49)), (None, None));
    }
}
