//! What memory is promised to programs, and how much of it may be: over-commit, as `/proc/sys/vm` sets it.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::facts::page_size;
use crate::memory::frames;

/// Pages that are promised to programs, as `Committed_AS` tells.
static PROMISED: AtomicU64 = AtomicU64::new(0);
/// `overcommit_memory`, `overcommit_ratio` and `overcommit_kbytes`.
static POLICY: [AtomicU64; 3] = [AtomicU64::new(0), AtomicU64::new(50), AtomicU64::new(0)];

fn policy() -> [u64; 3] {
    [0, 1, 2].map(|which: usize| POLICY[which].load(Ordering::Relaxed))
}

/// Keeps to another policy from now on.
pub(crate) fn follow(policy: [u64; 3]) {
    POLICY.iter().zip(policy).for_each(|(place, value)| place.store(value, Ordering::Relaxed));
}

/// Whether no more is promised than there is, whatever a program says of it.
pub(crate) fn are_kept() -> bool {
    policy()[0] == 2
}

/// Pages that are promised to programs.
pub(crate) fn promised() -> u64 {
    PROMISED.load(Ordering::Relaxed)
}

/// The pages that may be promised where promises are kept: `CommitLimit`.
pub(crate) fn limit() -> u64 {
    match policy() {
        [_, ratio, 0] => frames::all_pages() * ratio / 100,
        [.., kib] => (kib << 10) >> page_size().shift(),
    }
}

/// Promises pages, if that may be.
pub(crate) fn promise(pages: u64) -> bool {
    let is_possible = match policy()[0] {
        1 => true,
        2 => promised().saturating_add(pages) < limit(),
        // Refused is only what could never be had at once.
        _ => pages <= frames::all_pages(),
    };
    if is_possible {
        PROMISED.fetch_add(pages, Ordering::Relaxed);
    }
    is_possible
}

/// Nobody is promised these any more.
pub(crate) fn take_back(pages: u64) {
    PROMISED.fetch_sub(pages, Ordering::Relaxed);
}
