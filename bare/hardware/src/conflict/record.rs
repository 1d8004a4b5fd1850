//! What a CPU's handler of TLB conflict aborts knows, and where it keeps registers: see `conflict.s`.

use core::cell::Cell;

#[repr(C)]
pub(crate) struct Record {
    pub(crate) scratch: Cell<[u64; 3]>,
    /// Of fetches, and of accesses to data.
    pub(crate) counts: Cell<[u64; 2]>,
    /// The instruction of the last one.
    pub(crate) last: Cell<u64>,
    /// Of all CPUs, when it came.
    pub(crate) resizes: Cell<u64>,
    /// How often it has come again, no other and no resize in between.
    pub(crate) repeats: Cell<u64>,
    /// How often it may; 0 if none is to be answered.
    pub(crate) patience: Cell<u64>,
}

impl Record {
    pub(crate) const fn new() -> Self {
        Self {
            scratch: Cell::new([0; 3]),
            counts: Cell::new([0; 2]),
            last: Cell::new(0),
            resizes: Cell::new(0),
            repeats: Cell::new(0),
            patience: Cell::new(0),
        }
    }
}
