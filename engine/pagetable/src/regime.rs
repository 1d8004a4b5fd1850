//! Translation regimes: whose addresses they are, what attributes mean, and how TLBs are made to forget.

mod stage1;
mod stage2;

use vmsa::{Address, Bits, Geometry, Granule, Layout, Maintenance};

use crate::invalidation::Invalidation;
use crate::platform::Platform;

pub use stage1::{El1, El2, El2And0, Scope};
pub use stage2::Stage2;

/// Attributes of a leaf: descriptor bits, whatever they mean.
pub trait Attributes: Copy + Eq + core::fmt::Debug + Into<Bits> {
    /// Bits that hardware does not look at: a change of these needs no TLB maintenance.
    const IGNORED: Bits;
    /// Bits that may change in a live leaf without break-before-make, with a TLBI afterwards (DDI 0487, RWHZWS).
    const IN_PLACE: Bits;
    /// The access flag: setting it needs no TLB maintenance, because a leaf without it is never cached.
    const ACCESS_FLAG: Bits;
    /// The shareability field, which LPA2 descriptors do not have.
    const SHAREABILITY: Bits;
    /// Bits that hardware changes when it manages the dirty state.
    const DIRTY: Bits;
    /// How a leaf becomes clean: leaves that have all bits of the first get those of the second set and of the third
    /// cleared. The first tells that the dirty state is managed by hardware (DBM). A leaf that becomes dirty gets the
    /// opposite.
    const CLEAN: (Bits, Bits, Bits);

    /// Attribute bits that say both what `one` and what `other` say of accesses and writes.
    fn gather(one: Bits, other: Bits) -> Bits;

    /// `bits` with all that hardware may write: accessed, and dirty where it manages that.
    fn marked_all_over(bits: Bits) -> Bits {
        let (_, clean, dirty) = Self::CLEAN;
        Self::keep_hardware_writes(bits, clean, Self::ACCESS_FLAG | dirty)
    }

    /// `bits` with what hardware wrote between `before` and `after`: accessed, dirty.
    fn keep_hardware_writes(bits: Bits, before: Bits, after: Bits) -> Bits;
}

/// Who translates. A type and a value, so that impossible calls do not compile.
pub trait Regime: Copy {
    /// The addresses that are translated.
    type Input: Address;
    /// What a leaf can say.
    type Attributes: Attributes;
    /// Whether the CPU that changes a page table may be translating by it.
    const IS_OWN: bool = true;
    /// Attribute bits that the regime's leaves do not have: a change that names them is refused.
    const ABSENT: Bits = 0;

    /// Whether page tables of the regime can have this shape.
    fn accepts<G: Granule>(self, geometry: Geometry<G>) -> bool;

    /// Whether hardware writes the access flag or the dirty state of descriptors on its own.
    fn has_hardware_updates(self) -> bool;

    /// Whether each TLBI and its DSB must be issued twice.
    fn must_repeat(self) -> bool;

    /// Gives `sink` the TLBIs that make every TLB forget, and says what that leaves. The caller has a DSB before, and one
    /// after.
    fn invalidate<G: Granule>(self, what: &Invalidation, layout: Layout, sink: &mut impl FnMut(Maintenance)) -> Rest;

    /// Makes the CPU that has changed a page table forget what it fetched and walked by it.
    #[track_caller]
    #[inline(always)]
    fn synchronize(platform: &impl Platform) {
        if Self::IS_OWN {
            platform.maintain(Maintenance::ISB);
        }
    }

    /// Gives `sink` what makes every TLB forget what [`Rest::Combined`] leaves, be it of many invalidations. A DSB stands
    /// before, so that what they are of is complete, and one after.
    fn invalidate_combined(self, sink: &mut impl FnMut(Maintenance)) {
        let _ = sink;
    }
}

/// What TLBs may still hold of a range whose TLBIs were issued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rest {
    /// Nothing, once a DSB completes them.
    Nothing,
    /// Translations of both stages at once, which TLBIs by intermediate address need not find.
    Combined,
}
