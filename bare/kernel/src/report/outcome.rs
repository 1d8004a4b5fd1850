//! How the checks of this boot went, for its verdict.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::console::say;

static CHECKS: AtomicUsize = AtomicUsize::new(0);
static FAILED: AtomicUsize = AtomicUsize::new(0);

/// Prints how a check went, and counts it. Whether it passed.
pub(crate) fn note(name: &str, is_ok: bool, detail: impl fmt::Display) -> bool {
    CHECKS.fetch_add(1, Ordering::Relaxed);
    FAILED.fetch_add(usize::from(!is_ok), Ordering::Relaxed);
    say!("check {name}: {} ({detail})", if is_ok { "ok" } else { "FAILED" });
    is_ok
}

/// Checks that failed, and all.
pub(super) fn counts() -> (usize, usize) {
    (FAILED.load(Ordering::Relaxed), CHECKS.load(Ordering::Relaxed))
}
