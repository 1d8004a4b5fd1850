//! What a platform does, as data.

use core::fmt;

use vmsa::{Descriptor, Maintenance};

use crate::platform::Slot;

/// One action on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A descriptor is read: what was seen.
    Load(Slot, Descriptor),
    /// A descriptor is written.
    Store(Slot, Descriptor),
    /// A descriptor is written if the slot holds what is expected.
    Exchange {
        /// The slot.
        slot: Slot,
        /// What it is to hold.
        expected: Descriptor,
        /// What is written then.
        new: Descriptor,
        /// What it held.
        found: Descriptor,
    },
    /// A barrier or TLBI is executed.
    Maintain(Maintenance),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(slot, found) => write!(f, "load {slot:?} -> {found:?}"),
            Self::Store(slot, new) => write!(f, "store {slot:?} <- {new:?}"),
            Self::Exchange { slot, expected, new, .. } => write!(f, "exchange {slot:?} {expected:?} -> {new:?}"),
            Self::Maintain(operation) => operation.fmt(f),
        }
    }
}
