//! How the editor of the kernel's tables reaches them: by the linear map, but in a window by the workshop, a map of the same memory
//! in the lower half that is not changed meanwhile.

use core::sync::atomic::{AtomicBool, Ordering};

use hardware::platform::Hardware;
use pagetable::{Platform, Slot};
use vmsa::{Descriptor, Maintenance};

use crate::memory::readers;

/// The machine, as the editor of the kernel's tables reaches it.
pub(crate) struct Reach {
    linear: Hardware,
    workshop: Hardware,
    /// The workshop is in TTBR0_EL1, and the linear map may have holes.
    is_in_window: AtomicBool,
}

impl Reach {
    /// Tables are reached by either of these.
    pub(crate) const fn new(linear: Hardware, workshop: Hardware) -> Self {
        Self { linear, workshop, is_in_window: AtomicBool::new(false) }
    }

    /// Runs `body` with tables reached by the workshop, which is in TTBR0_EL1. One CPU edits.
    pub(crate) fn in_workshop<T>(&self, body: impl FnOnce() -> T) -> T {
        self.is_in_window.store(true, Ordering::Relaxed);
        let result = body();
        self.is_in_window.store(false, Ordering::Relaxed);
        result
    }

    #[inline(always)]
    fn machine(&self) -> &Hardware {
        // Another CPU that reads it meanwhile is parked, or there is none.
        if self.is_in_window.load(Ordering::Relaxed) { &self.workshop } else { &self.linear }
    }
}

impl Platform for Reach {
    #[inline(always)]
    fn load(&self, slot: Slot) -> Descriptor {
        self.machine().load(slot)
    }

    #[inline(always)]
    fn store(&self, slot: Slot, descriptor: Descriptor) {
        self.machine().store(slot, descriptor);
    }

    #[inline(always)]
    fn exchange(&self, slot: Slot, old: Descriptor, new: Descriptor) -> Result<(), Descriptor> {
        self.machine().exchange(slot, old, new)
    }

    #[inline(always)]
    fn maintain(&self, operation: Maintenance) {
        self.linear.maintain(operation);
    }

    fn wait_for_views(&self) {
        readers::wait();
    }

    /// Windows open and close between runs, never within one.
    #[inline(always)]
    fn for_run(&self) -> impl Platform + '_ {
        *self.machine()
    }
}
