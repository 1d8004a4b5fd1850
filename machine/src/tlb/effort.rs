//! How much was looked at for the answers so far: words, stale entries, places, pairs. A shortcut changes this number and
//! nothing else, so that the record of it (`tests/recorded.rs`) is what holds the shortcuts.

use core::cell::Cell;

/// The number, and whether what is asked counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effort {
    total: Cell<u64>,
    is_free: Cell<bool>,
}

impl Effort {
    /// One thing more was looked at.
    pub(crate) fn spend(&self) {
        self.total.set(self.total.get() + u64::from(!self.is_free.get()));
    }

    /// What `ask` finds, at no cost: debug builds ask twice, and are to spend what others do.
    #[cfg(debug_assertions)]
    pub(crate) fn free<T>(&self, ask: impl FnOnce() -> T) -> T {
        let was_free = self.is_free.replace(true);
        let found = ask();
        self.is_free.set(was_free);
        found
    }

    /// True within: then nothing is learnt either.
    pub(crate) const fn is_free(&self) -> bool {
        self.is_free.get()
    }

    pub(crate) const fn total(&self) -> u64 {
        self.total.get()
    }
}
