//! The linear map: every address of RAM at a constant distance.

use core::ops::Range;

use vmsa::{LeafSize, PhysAddr, VirtAddr};

use crate::choice::Choice;

/// Where the linear map begins, and what it can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Linear {
    /// Its first virtual address: the lowest of the upper half.
    pub base: u64,
    /// The physical address that is there.
    pub origin: u64,
    /// How many bytes it can hold.
    pub capacity: u64,
}

impl Linear {
    /// The linear map of a kernel that chose so, for RAM that starts at `lowest`.
    ///
    /// The origin is rounded down so far that memory keeps its alignment to every leaf; but leaves of more than a
    /// quarter of the capacity are not worth the addresses that this wastes.
    pub fn new(choice: &Choice, lowest: PhysAddr) -> Self {
        let Choice { page_size, layout, virtual_bits: input_bits, .. } = *choice;
        let capacity = 1 << (input_bits - 1);
        let largest =
            LeafSize::all(page_size, layout).map(|leaf| leaf.size_bytes(page_size)).find(|size| *size <= capacity / 4);
        let origin = lowest.align_down(largest.unwrap_or(page_size.size_bytes())).bits();
        Self { base: !0 << input_bits, origin, capacity }
    }

    /// The first physical address beyond it.
    pub fn limit(self) -> PhysAddr {
        PhysAddr::new(self.origin.saturating_add(self.capacity))
    }

    /// Virtual minus physical address.
    pub fn offset(self) -> u64 {
        self.base.wrapping_sub(self.origin)
    }

    /// Where a physical address is.
    pub fn address(self, physical: PhysAddr) -> VirtAddr {
        VirtAddr::new(physical.bits().wrapping_add(self.offset()))
    }

    /// Every address that it can hold.
    pub fn range(self) -> Range<VirtAddr> {
        VirtAddr::new(self.base)..VirtAddr::new(self.base + self.capacity)
    }

    /// Whether it can hold something at this address.
    pub fn contains(self, address: VirtAddr) -> bool {
        self.range().contains(&address)
    }
}
