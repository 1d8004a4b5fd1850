//! What must be as before once all that was taken is released: the linear map, leaf for leaf, and free memory, to the page.

use kerncore::range::Bytes;

use crate::cpus::walkers;
use crate::facts::{facts, page_size};
use crate::memory::{current, handed, hidden_pages, linear_map, pages, secret, shared};
use crate::report::console::say;

/// The healed linear map, and who has memory.
pub(super) struct State {
    digest: u64,
    /// Bytes that are free, or of tables of the linear map: what is hidden for ever takes some.
    free: u64,
    /// Pages that a realm's host has kept.
    lost: u64,
    /// A bit for each CPU that runs, and has its stacks.
    running: u32,
}

impl State {
    /// After the map has healed as far as it does.
    pub(super) fn healed() -> Self {
        linear_map::get().heal_all();
        linear_map::get().refill();
        let tables = current::upper().summary(facts().linear.range()).map_or(0, |summary| summary.tables() as u64);
        let free = pages::with_pages(|pages| pages.free_bytes()) + tables * page_size().size_bytes();
        Self { digest: linear_map::digest(), free, lost: handed::counts().1, running: walkers::running() }
    }

    /// Whether all is as it was before, but for pages that a host has kept since: each of those is hidden, and none else, as self-checks see.
    pub(super) fn is_as(&self, before: &Self) -> bool {
        let lost = self.lost - before.lost;
        let is_map = self.digest == before.digest;
        match (is_map, lost, hidden_pages::is_on()) {
            // Which pages are given out, and so shown, is another matter then.
            (.., true) => say!("stress: free pages are hidden, so that the linear map is not compared"),
            (true, ..) => say!("stress: the linear map is as it was before, leaf for leaf"),
            (false, 1.., _) => {
                say!("stress: the linear map is as it was before, but for {lost} pages that the host has kept")
            }
            (false, ..) => say!("stress: the linear map is NOT as it was before, leaf for leaf"),
        }
        let has_come = self.running != before.running;
        let is_free = self.free + lost * page_size().size_bytes() == before.free;
        match is_free {
            _ if has_come => say!("stress: CPUs came meanwhile and have stacks, so that free memory is not compared"),
            true => say!("stress: free memory is what it was, to the page"),
            false => say!("stress: {} are free, NOT {} as before", Bytes(self.free), Bytes(before.free)),
        }
        let is_released = secret::counts() == (0, 0) && shared::counts() == (0, 0) && handed::counts().0 == 0;
        (is_map || lost > 0 || hidden_pages::is_on()) && (is_free || has_come) && is_released
    }
}
