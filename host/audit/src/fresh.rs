//! Addresses that a kernel has mapped, and that walks of some CPU may not find yet. All that an access costs elsewhere is to be held
//! against the lowest and the highest of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// CPUs at most.
const CPUS: usize = 64;

/// Addresses, the last one included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    /// The lowest.
    pub first: u64,
    /// The highest: below the lowest where there is none.
    pub last: u64,
}

impl Span {
    /// No address.
    pub const NOTHING: Self = Self { first: u64::MAX, last: 0 };

    /// The smallest that covers both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    /// Whether `address` is one of them.
    pub const fn has(self, address: u64) -> bool {
        self.first <= address && address <= self.last
    }
}

/// For each CPU what is of interest of its accesses.
#[derive(Debug)]
pub struct Fresh([[AtomicU64; 2]; CPUS]);

impl Default for Fresh {
    fn default() -> Self {
        let nothing = || [Span::NOTHING.first, Span::NOTHING.last].map(AtomicU64::new);
        Self(std::array::from_fn(|_| nothing()))
    }
}

impl Fresh {
    /// Whether it matters that `cpu` uses `address`.
    #[inline]
    pub fn has(&self, cpu: u8, address: u64) -> bool {
        let [first, last] = &self.0[usize::from(cpu) % CPUS];
        address >= first.load(Ordering::Relaxed) && address <= last.load(Ordering::Relaxed)
    }

    /// From now on these addresses matter too, to every CPU.
    pub fn add(&self, span: Span) {
        for [first, last] in &self.0 {
            first.fetch_min(span.first, Ordering::Relaxed);
            last.fetch_max(span.last, Ordering::Relaxed);
        }
    }

    /// From now on these addresses matter, and no others.
    pub fn set(&self, cpu: u8, span: Span) {
        let [first, last] = &self.0[usize::from(cpu) % CPUS];
        first.store(span.first, Ordering::Relaxed);
        last.store(span.last, Ordering::Relaxed);
    }
}
