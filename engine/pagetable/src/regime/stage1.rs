//! The stage-1 regimes: EL1&0, EL2&0 and EL2.

use vmsa::maintenance::{Maintenance, TlbiOp, operand_by_address, operand_by_asid};
use vmsa::{AddressHalf, Bits, Geometry, Granule, Layout, Stage1Attributes, VirtAddr};

use super::{Attributes, Fields, HardwareUpdates, Maintains, Regime, Rest};
use crate::invalidation::{Depth, Invalidate, Invalidation, TlbFeatures};

impl Attributes for Stage1Attributes {}

impl Fields for Stage1Attributes {
    const IGNORED: Bits = Self::SOFTWARE.bits();
    const IN_PLACE: Bits = Self::IN_PLACE.bits();
    const ACCESS_FLAG: Bits = Self::AF.bits();
    const SHAREABILITY: Bits = Self::INNER_SHAREABLE.bits();
    const DBM: Bits = Self::DBM.bits();
    const DIRTY: Bits = Self::READ_ONLY.bits();
    const CLEAN: Bits = Self::READ_ONLY.bits();
}

/// Whose translations a stage-1 page table of EL1&0 or EL2&0 holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every address space's: global leaves, of the kernel.
    Global,
    /// One address space's, with this ASID. Every leaf has [`Stage1Attributes::NOT_GLOBAL`]: a TLB keeps one without it when
    /// it forgets all of an ASID (ASIDE1IS).
    Asid(u16),
}

/// Stage 1 of the EL1&0 regime, seen from EL1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct El1 {
    /// Whose translations they are.
    pub scope: Scope,
    /// What the TLB maintenance of every CPU can do.
    pub tlb: TlbFeatures,
    /// What walkers write into leaves: the most that TCR_EL1.{HA, HD} let those of any CPU write.
    pub hardware_updates: HardwareUpdates,
}

impl El1 {
    /// Global leaves, of the kernel. TLB maintenance is what every CPU has, and hardware writes no leaf.
    pub const fn kernel() -> Self {
        Self { scope: Scope::Global, tlb: TlbFeatures::NONE, hardware_updates: HardwareUpdates::None }
    }

    /// The address space with this ASID, likewise.
    pub const fn space(asid: u16) -> Self {
        Self { scope: Scope::Asid(asid), ..Self::kernel() }
    }
}

/// The EL2&0 regime: a kernel at EL2 with the virtualization host extensions (HCR_EL2.{E2H, TGE} = {1, 1}), with two ranges of
/// addresses and with ASIDs.
///
/// Its TLB maintenance is that of [`El1`], letter for letter: executed at EL2 while HCR_EL2.E2H *and* TGE are set, the E1
/// operations act on EL2&0 (D8.17). With either bit clear they act on a guest instead, so that changes are applied and gathers
/// are finished with both set, and an ISB since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct El2And0 {
    /// Whose translations they are.
    pub scope: Scope,
    /// What the TLB maintenance of every CPU can do.
    pub tlb: TlbFeatures,
    /// What walkers write into leaves: the most that TCR_EL2.{HA, HD} let those of any CPU write.
    pub hardware_updates: HardwareUpdates,
}

/// The EL2 regime (HCR_EL2.E2H = 0): a hypervisor's or monitor's own addresses, in one range from 0 up, without ASIDs. Its
/// TLB maintenance is executed at EL2.
///
/// Leaves have one execute-never bit ([`Stage1Attributes::XN`]) and no PXN, nG or EL0: a change that names PXN or nG is
/// refused by [`crate::Refusal::NotAttributes`]. AP\[1\] is RES1: [`Stage1Attributes::ONE_PRIVILEGE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct El2 {
    /// What the TLB maintenance of every CPU can do.
    pub tlb: TlbFeatures,
    /// What walkers write into leaves: the most that TCR_EL2.{HA, HD} let those of any CPU write.
    pub hardware_updates: HardwareUpdates,
}

/// The operations that forget, and the ASID that stands in their operands.
struct Operations {
    by_address: TlbiOp,
    by_range: TlbiOp,
    everything: TlbiOp,
    asid: u16,
}

impl Operations {
    /// Of a regime with two ranges of addresses.
    #[inline(always)]
    const fn of_two_ranges(scope: Scope, depth: Depth) -> Self {
        // Kernel tables are walked under every ASID, and walk-cache entries carry the ASID they were made under: what is
        // global goes by the all-ASID forms (RCHVGJ).
        let (by_address, by_range, everything, asid) = match (scope, depth) {
            (Scope::Global, Depth::LastLevel) => (TlbiOp::VAALE1IS, TlbiOp::RVAALE1IS, TlbiOp::VMALLE1IS, 0),
            (Scope::Global, Depth::AllLevels) => (TlbiOp::VAAE1IS, TlbiOp::RVAAE1IS, TlbiOp::VMALLE1IS, 0),
            (Scope::Asid(asid), Depth::LastLevel) => (TlbiOp::VALE1IS, TlbiOp::RVALE1IS, TlbiOp::ASIDE1IS, asid),
            (Scope::Asid(asid), Depth::AllLevels) => (TlbiOp::VAE1IS, TlbiOp::RVAE1IS, TlbiOp::ASIDE1IS, asid),
        };
        Self { by_address, by_range, everything, asid }
    }

    /// Of EL2 with one range.
    #[inline(always)]
    const fn of_el2(depth: Depth) -> Self {
        let (by_address, by_range) = match depth {
            Depth::LastLevel => (TlbiOp::VALE2IS, TlbiOp::RVALE2IS),
            Depth::AllLevels => (TlbiOp::VAE2IS, TlbiOp::RVAE2IS),
        };
        Self { by_address, by_range, everything: TlbiOp::ALLE2IS, asid: 0 }
    }

    #[inline(always)]
    fn invalidate<G: Granule>(
        self,
        what: &Invalidation,
        layout: Layout,
        tlb: TlbFeatures,
        sink: &mut impl FnMut(Maintenance),
    ) -> Rest {
        let asid_field = operand_by_asid(self.asid);
        what.for_each::<G>(layout, tlb, &mut |one| {
            sink(match one {
                Invalidate::Address(address, hint) => {
                    Maintenance::Invalidate(self.by_address, operand_by_address(self.asid, hint, address))
                }
                Invalidate::Range(operand) => Maintenance::Invalidate(self.by_range, asid_field | operand),
                Invalidate::Everything => Maintenance::Invalidate(self.everything, asid_field),
            });
        });
        Rest::Nothing
    }
}

/// A regime with two ranges of addresses, whose operations are those of EL1&0.
macro_rules! two_ranges {
    ($name:ident) => {
        impl Regime for $name {
            type Input = VirtAddr;
            type Attributes = Stage1Attributes;

            fn accepts<G: Granule>(self, geometry: Geometry<G>) -> bool {
                geometry.root_tables() == 1
            }

            fn hardware_updates(self) -> HardwareUpdates {
                self.hardware_updates
            }

            fn must_repeat(self) -> bool {
                self.tlb.repeat
            }
        }

        impl Maintains for $name {
            #[inline(always)]
            fn invalidate<G: Granule>(
                self,
                what: &Invalidation,
                layout: Layout,
                sink: &mut impl FnMut(Maintenance),
            ) -> Rest {
                Operations::of_two_ranges(self.scope, what.depth).invalidate::<G>(what, layout, self.tlb, sink)
            }
        }
    };
}

two_ranges!(El1);
two_ranges!(El2And0);

impl Regime for El2 {
    type Input = VirtAddr;
    type Attributes = Stage1Attributes;

    fn accepts<G: Granule>(self, geometry: Geometry<G>) -> bool {
        geometry.root_tables() == 1 && geometry.half() == AddressHalf::Lower
    }

    fn hardware_updates(self) -> HardwareUpdates {
        self.hardware_updates
    }

    fn must_repeat(self) -> bool {
        self.tlb.repeat
    }
}

impl Maintains for El2 {
    const ABSENT: Bits = Stage1Attributes::PXN.union(Stage1Attributes::NOT_GLOBAL).bits();

    #[inline(always)]
    fn invalidate<G: Granule>(self, what: &Invalidation, layout: Layout, sink: &mut impl FnMut(Maintenance)) -> Rest {
        Operations::of_el2(what.depth).invalidate::<G>(what, layout, self.tlb, sink)
    }
}
