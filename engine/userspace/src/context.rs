//! By which ASID TLBs know an address space.

use core::sync::atomic::{AtomicU64, Ordering};

/// The generation stands above the bits of an ASID.
pub(crate) const GENERATION_SHIFT: u32 = 16;

/// The ASID of an address space, and of which generation it is: [`crate::Asids`] gives both.
#[derive(Debug, Default)]
pub struct Context(AtomicU64);

impl Context {
    /// That of a space that no CPU has run.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The ASID; 0, which no space has, before a CPU has run it.
    pub fn asid(&self) -> u16 {
        self.tag() as u16
    }

    /// Both.
    pub(crate) fn tag(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set_tag(&self, tag: u64) {
        self.0.store(tag, Ordering::Release);
    }
}
