//! Words for the monitor beneath, by a ring in a page that is shared with it: it prints them, where a realm's host could read them.

use core::sync::atomic::{AtomicU64, Ordering};

use kerncore::ring::{WRITTEN, Writer};

use crate::cpus::monitor;
use crate::facts::facts;
use crate::memory::shared::Shared;

/// A ring, until it is dropped.
pub(crate) struct Ring {
    page: Shared,
    writer: Writer,
}

impl Ring {
    /// An empty one, if a page is shared.
    pub(crate) fn new() -> Option<Self> {
        let page = Shared::take()?;
        words(&page).iter().for_each(|word| word.store(0, Ordering::Relaxed));
        Some(Self { page, writer: Writer::default() })
    }

    /// Has a text printed. Whether the monitor did, and did what it said.
    pub(crate) fn say(&mut self, mut text: &[u8]) -> bool {
        let Some(psci) = facts().psci else { return false };
        let words = words(&self.page);
        let load = |index: usize| words[index].load(Ordering::Relaxed);
        // Whoever sees that there is text sees the text.
        let order = |index| if index == WRITTEN { Ordering::Release } else { Ordering::Relaxed };
        while !text.is_empty() {
            let store = |index: usize, word| words[index].store(word, order(index));
            let Some(rest) = self.writer.write(text, load, store) else { return false };
            let written = (text.len() - rest.len()) as u64;
            // A monitor that reads nothing leaves no room.
            if written == 0 || monitor::print_ring(&psci, self.page.output()) != Some(written) {
                return false;
            }
            text = rest;
        }
        true
    }
}

/// The granule at the beginning of a page, whatever the page size.
fn words(page: &Shared) -> &[AtomicU64; 512] {
    let start = page.address().bits() as *const [AtomicU64; 512];
    // SAFETY: the page is its holder's, mapped writable for as long; what its host does there is to atomic words.
    unsafe { &*start }
}
