//! What must be as before once all that was taken is released, and who has stacks.

use kerncore::range::Bytes;

use crate::console::say;
use crate::cpus::walkers;
use crate::memory::settled::Settled;
use crate::memory::{handed, hidden_pages, secret, shared};

/// The linear map and free memory; and a bit for each CPU that runs.
pub(super) struct State {
    settled: Settled,
    running: u32,
}

impl State {
    /// After the map has healed as far as it does.
    pub(super) fn healed() -> Self {
        Self { settled: Settled::now(), running: walkers::running() }
    }

    /// Whether all is as it was before, but for pages that a host has kept since.
    pub(super) fn is_as(&self, before: &Self) -> bool {
        let (after, before_it) = (&self.settled, &before.settled);
        let (is_map, is_free) = (after.is_map_of(before_it), after.is_memory_of(before_it));
        match (is_map, after.lost - before_it.lost) {
            (false, _) => say!("stress: the linear map is NOT as it was before, leaf for leaf"),
            _ if hidden_pages::is_on() => say!("stress: free pages are hidden, so that the linear map is not compared"),
            (true, 0) => say!("stress: the linear map is as it was before, leaf for leaf"),
            (true, lost) => {
                say!(
                    "stress: the linear map is as it was before, leaf for leaf, but for {lost} pages that the host keeps, each of them hidden"
                )
            }
        }
        let has_come = self.running != before.running;
        match is_free {
            _ if has_come => say!("stress: CPUs came meanwhile and have stacks, so that free memory is not compared"),
            true => say!("stress: free memory is what it was, to the page"),
            false => say!("stress: {} are free, NOT {} as before", Bytes(after.free), Bytes(before_it.free)),
        }
        let is_released = secret::counts() == (0, 0) && shared::counts() == (0, 0) && handed::counts().0 == 0;
        is_map && (is_free || has_come) && is_released
    }
}
