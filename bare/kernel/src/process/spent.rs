//! What threads have used: time, and faults of their pages.

use core::iter::Sum;
use core::ops::AddAssign;

/// What threads have used together.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Spent {
    /// Ticks of the counter.
    pub(crate) ticks: u64,
    /// Faults that the address space has mended.
    pub(crate) faults: u64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.ticks += other.ticks;
        self.faults += other.faults;
    }
}

impl Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}
