//! Which interleavings of a scenario are run: all of them, random ones, or one that is given.

mod dependence;
pub mod exhaustive;
pub mod random;

use crate::failure::Failure;

/// The order in which CPUs made their steps.
pub type Choices = Vec<u8>;

/// A failure and the schedule that leads to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Caught {
    /// What went wrong.
    pub failure: Failure,
    /// Which CPU made each step before it.
    pub choices: Choices,
}

/// What an exploration did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Schedules, whole or to where they met a known state.
    pub schedules: u64,
    /// Different states.
    pub states: u64,
    /// Machine events.
    pub events: u64,
}

impl Tally {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.states += other.states;
        self.events += other.events;
    }
}
