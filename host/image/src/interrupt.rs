//! A wish to stop. A live guest must be let go before the program ends, so a signal only leaves word here, and the next
//! read fails.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::memory::ReadError;

static WANTED: AtomicBool = AtomicBool::new(false);

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
