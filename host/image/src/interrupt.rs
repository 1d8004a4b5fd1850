//! A wish to stop. A live guest must be let go before the program ends, so while one is held a signal only leaves word here, and
//! the next read fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::memory::ReadError;

static WANTED: AtomicBool = AtomicBool::new(false);
static HOLDERS: AtomicUsize = AtomicUsize::new(0);

/// As long as this lives there is something to be done before the program may end.
#[derive(PartialEq, Eq, Debug)]
pub struct Held(());

/// Says that something must be done before the program ends: a guest let go, a last line told.
#[must_use]
pub fn hold() -> Held {
    HOLDERS.fetch_add(1, Ordering::SeqCst);
    Held(())
}

impl Drop for Held {
    fn drop(&mut self) {
        HOLDERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether there is such a thing.
pub fn is_held() -> bool {
    HOLDERS.load(Ordering::SeqCst) > 0
}

/// Asks every reader to stop at its next read; returns whether that had been asked before.
pub fn request() -> bool {
    WANTED.swap(true, Ordering::Relaxed)
}

/// Whether that has been asked.
pub fn is_requested() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// Whether to go on.
pub(crate) fn check() -> Result<(), ReadError> {
    if is_requested() { Err(ReadError::Interrupted) } else { Ok(()) }
}
