//! Leaves that no area explains: with `vellum.check-areas=yes` each call on an address space looks for one at its end.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::facts::facts;

/// How often areas were compared with page tables.
static COMPARED: AtomicU64 = AtomicU64::new(0);
/// The first such address.
static FOUND: AtomicU64 = AtomicU64::new(NONE);

const NONE: u64 = u64::MAX;

fn is_asked_for() -> bool {
    facts().options.checks_areas == Some(true)
}

/// Looks for such an address, if that is asked for.
pub(super) fn check(find_stray: &dyn Fn() -> Option<u64>) {
    if !is_asked_for() {
        return;
    }
    COMPARED.fetch_add(1, Ordering::Relaxed);
    if let Some(address) = find_stray() {
        let _ = FOUND.compare_exchange(NONE, address, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// How often was looked, or the first such address; `None` if nobody asked.
pub(crate) fn result() -> Option<Result<u64, u64>> {
    let compared = COMPARED.load(Ordering::Relaxed);
    is_asked_for().then(|| match FOUND.load(Ordering::Relaxed) {
        NONE => Ok(compared),
        address => Err(address),
    })
}
