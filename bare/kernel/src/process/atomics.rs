//! First touches by atomics, whose faults tell of the read alone.
//!
//! ```text
//! a fault on a read ──▶ AT: where the PC leads ──▶ a load by the linear map ──▶ an atomic? ──▶ a fault on a write
//! ```
//! Nothing is locked and no table is read by the kernel: the MMU walks, and a table that it may be walking is not freed before a TLBI
//! and a DSB. Neither asks it what EL0 may read, so that text that can only be executed costs no more. What the page holds by the time
//! of the load is a hint, no more.

use core::sync::atomic::{AtomicU64, Ordering};

use hardware::exception::Frame;
use hardware::{translation, user};
use userspace::{Access, Kind, Text};
use vmsa::{PhysAddr, VirtAddr};

use crate::facts::facts;

/// Faults on reads that were atomics'.
static RECOGNIZED: AtomicU64 = AtomicU64::new(0);

/// PSTATE.nRW: AArch32.
const IS_32_BIT: u64 = 1 << 4;

/// What this CPU runs at EL0.
struct OfThisCpu;

impl Text for OfThisCpu {
    #[inline]
    fn translate(&self, address: u64) -> Option<PhysAddr> {
        translation::read_translation(VirtAddr::new(address)).ok()
    }

    #[inline]
    fn load(&self, at: PhysAddr) -> Option<u32> {
        user::load_word_of_frame(at, facts().linear.offset())
    }
}

/// What the access was that a program faulted by.
#[inline(always)]
pub(super) fn recognize(access: Access, frame: &Frame) -> Access {
    if access.kind == Kind::Read { recognize_read(access, frame) } else { access }
}

#[inline(never)]
fn recognize_read(access: Access, frame: &Frame) -> Access {
    if frame.status & IS_32_BIT != 0 {
        return access;
    }
    let access = access.made_at(frame.return_address, &OfThisCpu);
    if access.kind == Kind::Atomic {
        RECOGNIZED.fetch_add(1, Ordering::Relaxed);
    }
    access
}

/// Faults on reads that were atomics'.
pub(super) fn count() -> u64 {
    RECOGNIZED.load(Ordering::Relaxed)
}
