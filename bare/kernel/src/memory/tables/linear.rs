//! What may be asked of the linear map, whatever its granule.

use core::ops::Range;

use linearmap::{Context, Counters, Cpu, Leaves, LinearMap, Refused, Standing, Wanted};
use vmsa::{Granule, VirtAddr};

use super::forward::forward;
use crate::memory::embedding::Kernel;

/// What is told of the linear map when it is taken over from boot.
pub(crate) struct Painted {
    /// What of the page table is linear map.
    pub(crate) range: Range<VirtAddr>,
    /// How large its leaves may be.
    pub(crate) leaves: Leaves,
    /// Bytes of memory that are mapped.
    pub(crate) memory_bytes: u64,
}

/// The linear map of one granule.
pub(super) type Of<G> = LinearMap<Kernel<G>>;

forward! {
    /// [`LinearMap`]'s methods.
    pub(crate) trait Linear: Sync for Of<G> {
        fn change(&self, ranges: &[Range<VirtAddr>], wanted: Wanted, context: Context) -> Result<(), Refused>;
        fn change_all(&self, all: &[(&[Range<VirtAddr>], Wanted)], context: Context) -> Result<(), Refused>;
        fn heal(&self, budget: usize) -> bool;
        fn heal_all(&self);
        fn may_fold(&self) -> bool;
        fn refill(&self) -> bool;
        fn set_reserve(&self, tables: usize) -> bool;
        fn start_others(&self);
        fn settle(&self);
        fn admit(&self, cpu: Cpu);
        fn with_standing(&self, body: &mut dyn FnMut(&Standing));
        fn counters(&self) -> Counters;
        fn counters_at(&self) -> *const Counters;
    } and {}
}
