//! The registers of one CPU.

use machine::event::Level;
use machine::registers::{Features, Register};

use crate::interface::{self, Handle};

/// Handles of its registers, and what its ID registers announced.
pub(crate) struct Cpu {
    pub(crate) general: Vec<Option<Handle>>,
    pub(crate) state: Option<Handle>,
    pub(crate) system: Vec<(Register, Handle)>,
    /// SPSR of EL1 and EL2.
    pub(crate) saved: [Option<Handle>; 2],
    pub(crate) features: Features,
}

impl Cpu {
    /// A general-purpose register; the one with number 31 is zero.
    pub(crate) fn general(&self, number: u8) -> u64 {
        let handle = self.general.get(usize::from(number)).copied().flatten();
        handle.and_then(interface::register_value).unwrap_or(0)
    }

    /// The exception level that it runs at.
    pub(crate) fn level(&self) -> Level {
        self.state.and_then(interface::register_value).map_or(Level::El1, level)
    }
}

/// The exception level in PSTATE, or in an SPSR. (C5.2.19)
pub(crate) fn level(state: u64) -> Level {
    match (state >> 4 & 1, state >> 2 & 3) {
        (1, _) | (_, 0) => Level::El0,
        (_, 1) => Level::El1,
        _ => Level::El2,
    }
}
