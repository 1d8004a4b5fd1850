//! Translation regimes: whose addresses they are, what attributes mean, and how TLBs are made to forget.

pub(crate) mod marks;
mod stage1;
mod stage2;

use vmsa::{Address, Bits, Geometry, Granule, Layout, Maintenance};

use crate::invalidation::Invalidation;
use crate::platform::Platform;

pub use marks::HardwareUpdates;
pub(crate) use sealed::{Fields, Maintains};
pub use stage1::{El1, El2, El2And0, Scope};
pub use stage2::Stage2;

/// Attributes of a leaf: descriptor bits, whatever they mean.
pub trait Attributes: Fields + Copy + Eq + core::fmt::Debug + Into<Bits> {}

/// Who translates. A type and a value, so that impossible calls do not compile. The four that there are are this crate's own.
pub trait Regime: Maintains {
    /// The addresses that are translated.
    type Input: Address;
    /// What a leaf can say.
    type Attributes: Attributes;

    /// Whether page tables of the regime can have this shape.
    fn accepts<G: Granule>(self, geometry: Geometry<G>) -> bool;

    /// What hardware writes into leaves on its own.
    fn hardware_updates(self) -> HardwareUpdates;

    /// Whether each TLBI and its DSB must be issued twice.
    fn must_repeat(self) -> bool;
}

/// What nobody else can implement or call.
pub(crate) mod sealed {
    use super::{Bits, Granule, Invalidation, Layout, Maintenance, Platform, Rest};

    /// The bits of a leaf by what they mean.
    pub trait Fields {
        /// Bits that hardware does not look at: a change of these needs no TLB maintenance.
        const IGNORED: Bits;
        /// Bits that may change in a live leaf without break-before-make, with a TLBI afterwards (RWHZWS).
        const IN_PLACE: Bits;
        /// The access flag: setting it needs no TLB maintenance, because a leaf without it is never cached.
        const ACCESS_FLAG: Bits;
        /// The shareability field, which LPA2 descriptors do not have.
        const SHAREABILITY: Bits;
        /// Hardware may manage the dirty state of a leaf with this bit.
        const DBM: Bits;
        /// The bit by which such a leaf says whether it was written.
        const DIRTY: Bits;
        /// What that bit is while nobody has written.
        const CLEAN: Bits;
    }

    /// How a regime's TLBs are made to forget.
    pub trait Maintains: Copy {
        /// Whether the CPU that changes a page table may be translating by it.
        const IS_OWN: bool = true;
        /// Attribute bits that the regime's leaves do not have: a change that names them is refused.
        const ABSENT: Bits = 0;

        /// Gives `sink` the TLBIs that make every TLB forget, and says what that leaves. The caller has a DSB before, and one
        /// after.
        fn invalidate<G: Granule>(
            self,
            what: &Invalidation,
            layout: Layout,
            sink: &mut impl FnMut(Maintenance),
        ) -> Rest;

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
}

/// What TLBs may still hold of a range whose TLBIs were issued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rest {
    /// Nothing, once a DSB completes them.
    Nothing,
    /// Translations of both stages at once, which TLBIs by intermediate address need not find.
    Combined,
}
