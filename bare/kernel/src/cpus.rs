//! The CPUs: who runs, how the others are started, and how one calls all.

pub(crate) mod calls;
pub(crate) mod capabilities;
pub(crate) mod firmware;
pub(crate) mod interrupts;
pub(crate) mod monitor;
pub(crate) mod parking;
pub(crate) mod stacks;
pub(crate) mod start;
pub(crate) mod walkers;
