//! A recursion without end, on the stack that this runs on.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use hardware::catch::catch;
use hardware::per_cpu;

use super::detail::{Detail, tell};
use crate::cpus::stacks::{self, Kind, Place};
use crate::facts::page_size;

/// How deep it went.
static DEPTH: AtomicU64 = AtomicU64::new(0);

pub(super) fn overflow(detail: &mut Detail) -> bool {
    // SAFETY: the frames of the recursion hold nothing that needs to be dropped.
    let Err(fault) = (unsafe { catch(|| recurse(0)) }) else {
        tell!(detail, "the recursion came back");
        return false;
    };
    let Some(place) = stacks::find(fault.address, page_size()) else {
        tell!(detail, "{}, at {}, which is no stack", fault.syndrome, fault.address);
        return false;
    };
    tell!(detail, "{place}, after {} calls: {}", DEPTH.load(Ordering::Relaxed), fault.syndrome);
    place == Place { cpu: per_cpu::index(), kind: Kind::Thread, is_guard: true } && fault.syndrome.is_write()
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "it is the point")]
fn recurse(depth: u64) -> u64 {
    DEPTH.store(depth, Ordering::Relaxed);
    // Some of the stack in every frame, and work after the call, so that it cannot become a loop.
    let frame = black_box([depth; 8]);
    recurse(depth + 1) + black_box(frame)[7]
}
