//! The measured region.

/// Runs `work`. Callgrind counts from the entry of this function to its return, and nothing else: it is asked for by name.
#[inline(never)]
pub(crate) fn bench_measured_region(work: &mut dyn FnMut()) {
    work();
}
