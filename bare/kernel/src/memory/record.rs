//! Where the linear map's counters are found in memory by who looks from outside, be the kernel alive or not (`vellum dump --stats`).
//!
//! ```text
//! image ── its header, 64 bytes ── "VELLUMLM", distance ──▶ record: version, range, tables when painted, address ──▶ counters
//! ```

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use linearmap::Counters;
use vmsa::VirtAddr;

/// What the words mean, and those of [`Counters`].
const VERSION: u64 = 2;
const _: () = assert!(size_of::<Counters>() == 19 * 8);

/// The linker script puts the distance to it behind the header. All zeros until it is published.
#[unsafe(export_name = "linear_map_record")]
static RECORD: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// The linear map is found there from now on.
pub(super) fn publish(range: Range<VirtAddr>, tables: usize, counters: *const Counters) {
    let words = [VERSION, range.start.bits(), range.end.bits(), tables as u64, counters as u64];
    for (word, value) in RECORD.iter().zip(words).rev() {
        word.store(value, Ordering::Release);
    }
}
