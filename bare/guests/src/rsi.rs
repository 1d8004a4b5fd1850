//! Calls of the Realm Services Interface (Arm DEN 0137, B5), as they come back: nothing is believed here.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::hypercall;
use hardware::psci::Conduit;

/// Bytes of a granule.
pub const GRANULE_BYTES: u64 = 4096;
/// RSI_VERSION, of which the others follow; RSI ends with 0xc40001af.
pub const VERSION: u32 = 0xc400_0190;
/// RSI_FEATURES.
pub const FEATURES: u32 = 0xc400_0191;
/// RSI_REALM_CONFIG.
pub const REALM_CONFIG: u32 = 0xc400_0196;
/// RSI_IPA_STATE_SET.
pub const IPA_STATE_SET: u32 = 0xc400_0197;
/// RSI_IPA_STATE_GET.
pub const IPA_STATE_GET: u32 = 0xc400_0198;
/// RSI_HOST_CALL.
pub const HOST_CALL: u32 = 0xc400_0199;

/// Version 1.0.
pub const VERSION_1_0: u64 = 0x1_0000;
/// RSI_SUCCESS.
pub const SUCCESS: u64 = 0;
/// RSI_ERROR_INPUT.
pub const ERROR_INPUT: u64 = 1;
/// RSI_ERROR_UNKNOWN.
pub const ERROR_UNKNOWN: u64 = 4;
/// SMCCC's answer to what is not there.
pub const NOT_SUPPORTED: u64 = -1i64 as u64;
/// RSI_EMPTY: what the realm shares, or has not.
pub const EMPTY: u64 = 0;
/// RSI_RAM: the realm's own.
pub const RAM: u64 = 1;

/// A granule whose words anyone may write.
#[repr(C, align(4096))]
pub struct Granule([AtomicU64; 512]);

impl Granule {
    /// All 0.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 512])
    }

    /// Its address, which is protected.
    pub fn address(&self) -> u64 {
        &raw const self.0 as u64
    }

    /// Reads a word.
    pub fn read(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }

    /// Writes a word.
    pub fn write(&self, index: usize, word: u64) {
        self.0[index].store(word, Ordering::Relaxed);
    }
}

impl Default for Granule {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes a call, by SMC as a realm does; gives x0 to x3.
pub fn call(function: u32, arguments: [u64; 4]) -> [u64; 4] {
    hypercall::call(Conduit::Smc, function, arguments)
}

/// Where unprotected addresses begin, if this guest is a realm. `granule` is written.
pub fn find_unprotected(granule: &Granule) -> Option<u64> {
    let [result, ..] = call(VERSION, [VERSION_1_0, 0, 0, 0]);
    let [written, ..] = if result == SUCCESS { call(REALM_CONFIG, [granule.address(), 0, 0, 0]) } else { [result; 4] };
    (written == SUCCESS).then(|| 1 << (granule.read(0).clamp(1, 64) - 1))
}
