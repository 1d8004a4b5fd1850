//! Locks, of which a trace tells no more than that one was given away, and that one was taken: enough for who invalidates on behalf of
//! who took something away, and for who uses what another one mapped. (DDI 0487, B2.3: what was stored before a release is seen by who
//! reads what the release stored.)
//!
//! ```text
//! store over what was valid, or that maps for a kernel ──▶ store-release: `unlock` ──▶ exchange or load-acquire of each other CPU: `lock`
//! ```
//! Which lock it is, nobody compares: an exchange, or a load-acquire, comes after every release before it. Who waits in a queue has made its
//! exchange before that release, and takes the lock by a load-acquire.
//!
//! CPUs have threads of their own. A release is told *before* its store, and an exchange or a load behind it: who has read what the
//! store wrote is never told of first.

use std::sync::atomic::{AtomicU64, Ordering};

/// Who has something to give away, and who something to take: one bit for each CPU, at most 64.
#[derive(Debug, Default)]
pub struct Locks {
    storing: AtomicU64,
    behind: AtomicU64,
}

impl Locks {
    /// `cpu` has stored over what was valid, or has mapped something for its kernel.
    pub fn store(&self, cpu: u8) {
        self.storing.fetch_or(bit(cpu), Ordering::Relaxed);
    }

    /// A DSB of `cpu` has shown what it stored to everybody.
    pub fn finish(&self, cpu: u8) {
        self.storing.fetch_and(!bit(cpu), Ordering::Relaxed);
    }

    /// Whether it matters that `cpu` is about to release something.
    #[inline]
    pub fn may_give(&self, cpu: u8) -> bool {
        self.storing.load(Ordering::Relaxed) & bit(cpu) != 0
    }

    /// Whether it matters that `cpu` has exchanged something, or loaded it with acquire.
    #[inline]
    pub fn may_take(&self, cpu: u8) -> bool {
        self.behind.load(Ordering::Relaxed) & bit(cpu) != 0
    }

    /// `cpu` is about to release something, which all others may see.
    pub(crate) fn give(&self, cpu: u8) {
        self.finish(cpu);
        self.behind.fetch_or(!bit(cpu), Ordering::Relaxed);
    }

    /// `cpu` has seen it.
    pub(crate) fn take(&self, cpu: u8) {
        self.behind.fetch_and(!bit(cpu), Ordering::Relaxed);
    }
}

const fn bit(cpu: u8) -> u64 {
    1 << (cpu % 64)
}
