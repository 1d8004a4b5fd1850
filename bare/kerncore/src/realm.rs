//! A realm's side of the Realm Services Interface (Arm DEN 0137, RSI 1.0): what is asked, and how far an answer is believed.
//!
//! ```text
//! hidden ──▶ hand_over ──▶ all done: shown at the other address
//!               └─ stopped ──▶ take_back: what became EMPTY is asked back ──▶ what is RAM for certain is shown, the rest is lost
//! ```
//! Between the realm and its host stands the RMM, which is trusted. The host is not: it may do a part of what is asked, nothing, or refuse.

use vmsa::PhysAddr;

use crate::range::PhysicalRange;

/// Bytes of a granule, whatever the page size.
pub const GRANULE_BYTES: u64 = 4096;

const VERSION: u32 = 0xc400_0190;
const REALM_CONFIG: u32 = 0xc400_0196;
const IPA_STATE_SET: u32 = 0xc400_0197;
const IPA_STATE_GET: u32 = 0xc400_0198;

const VERSION_1_0: u64 = 0x1_0000;
const SUCCESS: u64 = 0;
/// RsiResponse: the host rejects the rest.
const REJECT: u64 = 1;

/// Answers without progress after which a host is given up.
const PATIENCE: u32 = 64;

/// How the RMM is called.
pub trait Rmm {
    /// Makes a call by SMC with x1 to x4; gives x0 to x3.
    fn call(&self, function: u32, arguments: [u64; 4]) -> [u64; 4];
}

/// RIPAS: what a protected address is for the realm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing; the unprotected address may lead to what is shared.
    Empty,
    /// The realm's own memory.
    Ram,
    /// The host has taken away what was there.
    Destroyed,
    /// A device's, or what is not known.
    Other,
}

/// Which state is asked for, and of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Memory is to be RAM from boot on: what the host has destroyed since the realm was measured stays so.
    RamAtBoot,
    /// Memory is to be the realm's own again, whatever became of it.
    Ram,
    /// Memory is to be shared with the host.
    Empty,
}

impl Wish {
    /// The state and the flags of a request: bit 0 lets what is DESTROYED change.
    const fn arguments(self) -> [u64; 2] {
        match self {
            Self::RamAtBoot => [1, 0],
            Self::Ram => [1, 1],
            Self::Empty => [0, 1],
        }
    }
}

/// Why a request was not done to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Why {
    /// The host rejects it.
    #[error("the host rejects it")]
    Rejected,
    /// The RMM answers with an error.
    #[error("the RMM answers with error {0}")]
    Error(u64),
    /// An answer that cannot be one.
    #[error("the answer {0:#x} is none")]
    Nonsense(u64),
    /// The host gets no further.
    #[error("the host gets no further")]
    NoProgress,
}

/// A request that stopped: from `reached` on nothing is known to have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// How far it got.
    pub reached: PhysAddr,
    /// Why no further.
    pub why: Why,
}

/// Bits of the realm's addresses, if this is a realm whose RMM has RSI 1.0. `granule` is in RAM, and is written; `read` reads its first
/// word then.
pub fn find(rmm: &impl Rmm, granule: PhysAddr, read: impl FnOnce() -> u64) -> Option<u32> {
    let is_success = |[result, ..]: [u64; 4]| result == SUCCESS;
    let is_there = is_success(rmm.call(VERSION, [VERSION_1_0, 0, 0, 0]));
    let is_written = is_there && is_success(rmm.call(REALM_CONFIG, [granule.bits(), 0, 0, 0]));
    let bits = is_written.then(read)?;
    // What no stage 2 has is no answer.
    u32::try_from(bits).ok().filter(|bits| (32..=52).contains(bits))
}

/// Asks for all of a range, which is whole granules, until the host has done it or has stopped.
pub fn hand_over(rmm: &impl Rmm, range: PhysicalRange, wish: Wish) -> Result<(), Stopped> {
    let (mut reached, mut patience) = (range.start, PATIENCE);
    let [state, flags] = wish.arguments();
    while reached < range.end {
        let stopped = |why| Err(Stopped { reached, why });
        let [result, next, response, _] = rmm.call(IPA_STATE_SET, [reached.bits(), range.end.bits(), state, flags]);
        if result != SUCCESS {
            return stopped(Why::Error(result));
        }
        if next < reached.bits() || next > range.end.bits() || !next.is_multiple_of(GRANULE_BYTES) {
            return stopped(Why::Nonsense(next));
        }
        patience = if next == reached.bits() { patience - 1 } else { PATIENCE };
        reached = PhysAddr::new(next);
        let why = match (response, patience) {
            _ if reached == range.end => break,
            (REJECT, _) => Why::Rejected,
            (_, 0) => Why::NoProgress,
            _ => continue,
        };
        return Err(Stopped { reached, why });
    }
    Ok(())
}

/// After a request for a range that stopped: what may have become EMPTY is asked back, and each page that is RAM for certain by then is
/// given to `sink`, what was in it lost. Nothing else of the range may be used again.
pub fn take_back(rmm: &impl Rmm, range: PhysicalRange, page_bytes: u64, mut sink: impl FnMut(PhysAddr)) {
    // The host may have begun where it says that it did nothing. What it does about this, the states say.
    let _ = hand_over(rmm, range, Wish::Ram);
    let mut page = range.start;
    while page < range.end {
        let whole = PhysicalRange::from_size(page, page_bytes);
        if is_ram(rmm, whole) {
            sink(page);
        }
        page = whole.end;
    }
}

/// The state of the first granule of a range, and where the next state begins, in the range or at its end.
pub fn state(rmm: &impl Rmm, range: PhysicalRange) -> Option<(State, PhysAddr)> {
    let [result, end, state, _] = rmm.call(IPA_STATE_GET, [range.start.bits(), range.end.bits(), 0, 0]);
    let is_answer =
        result == SUCCESS && end > range.start.bits() && end <= range.end.bits() && end.is_multiple_of(GRANULE_BYTES);
    let state = match state & 0xff {
        0 => State::Empty,
        1 => State::Ram,
        2 => State::Destroyed,
        _ => State::Other,
    };
    is_answer.then(|| (state, PhysAddr::new(end)))
}

/// Whether every granule of a range has a state, as far as the RMM says: it may tell of a part at a time.
pub fn is_all(rmm: &impl Rmm, range: PhysicalRange, wanted: State) -> bool {
    let mut rest = range;
    while !rest.is_empty() {
        match state(rmm, rest) {
            Some((state, end)) if state == wanted => rest.start = end,
            _ => return false,
        }
    }
    true
}

/// Whether every granule of a range is RAM.
pub fn is_ram(rmm: &impl Rmm, range: PhysicalRange) -> bool {
    is_all(rmm, range, State::Ram)
}
