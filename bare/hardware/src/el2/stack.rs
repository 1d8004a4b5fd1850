//! The stacks of the monitor's CPUs.

use core::ops::Range;

/// CPUs that are supported.
pub const CPUS: usize = 8;
/// Bytes of a page, and of the gap below each stack that no map may hold.
pub const GUARD_BYTES: usize = 4096;
/// Bytes from one CPU's stack to the next one's, its guard among them.
pub const STRIDE_BYTES: usize = 32 << 10;
/// Bytes of each CPU's stack for exceptions in the monitor.
pub(crate) const EMERGENCY_BYTES: usize = 8 << 10;

/// The addresses of the stack of CPU `index`, below [`CPUS`], without its guard.
pub fn range(index: usize) -> Range<u64> {
    unsafe extern "C" {
        #[link_name = "monitor_stacks_start"]
        static STACKS: u8;
    }
    let start = &raw const STACKS as u64 + (index * STRIDE_BYTES) as u64;
    start + GUARD_BYTES as u64..start + STRIDE_BYTES as u64
}
