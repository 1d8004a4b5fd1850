//! What the CPUs of a stress did, and what is left to do.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hardware::interrupts;

/// What all CPUs did.
#[derive(Default)]
pub(super) struct Tally {
    /// Operations that are still to be done.
    pub(super) left: AtomicU32,
    /// CPUs that were held back are being started: some operations are kept back until they have come.
    pub(super) is_joining: AtomicBool,
    /// Lists of ranges that were changed, and changed back.
    pub(super) changed: AtomicU64,
    /// Those of them that were changed in atomic context.
    pub(super) atomic: AtomicU64,
    /// Times that secret pages were held.
    pub(super) secret: AtomicU64,
    /// Areas of virtual addresses that came and went.
    pub(super) areas: AtomicU64,
    /// Pages that were read beside.
    pub(super) read: AtomicU64,
    /// Changes that found the reserve dry, and were made again by other means.
    pub(super) dry: AtomicU64,
    /// Changes that were refused for another reason.
    pub(super) refused: AtomicU64,
    /// Pages that were not as they must be.
    pub(super) wrong: AtomicU64,
}

impl Tally {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, came: Came) {
        match came {
            Came::Right | Came::Stopped => {}
            Came::Refused => Self::add(&self.refused),
            Came::Wrong => Self::add(&self.wrong),
        }
    }

    /// Takes one of the operations that are left.
    pub(super) fn take(&self) -> bool {
        let take = || self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        loop {
            // Asked first: what is kept back is there once nobody joins any more.
            let is_joining = self.is_joining.load(Ordering::Acquire);
            if take() {
                return true;
            }
            if !is_joining {
                return false;
            }
            interrupts::pause();
        }
    }
}

/// What came of an operation.
pub(super) enum Came {
    Right,
    /// There was no memory for it.
    Refused,
    /// The realm's host did not do all that it was asked.
    Stopped,
    Wrong,
}

impl Came {
    /// What is told of two operations: the first that did not go well.
    pub(super) fn and(self, other: Self) -> Self {
        if let Self::Right = self { other } else { self }
    }
}
