//! Stage 2 of EL1&0: from the intermediate addresses of a virtual machine to physical ones.
//!
//! ```text
//! IPAS2LE1IS …   what stage 2 alone translates, by intermediate address
//! DSB ISH        or a walk may combine stage 1 with a stage 2 that is not forgotten yet
//! VMALLE1IS      what both stages translate at once: nobody knows its virtual addresses
//! ```
//! Where everything is to be forgotten, VMALLS12E1IS does all of it.

use vmsa::maintenance::{Maintenance, TlbiOp, operand_by_intermediate};
use vmsa::{Bits, Geometry, Granule, IntermediateAddr, Layout, Stage2Attributes};

use super::{Attributes, Fields, HardwareUpdates, Maintains, Regime, Rest};
use crate::invalidation::{Depth, Invalidate, Invalidation, TlbFeatures};

impl Attributes for Stage2Attributes {}

impl Fields for Stage2Attributes {
    const IGNORED: Bits = Self::SOFTWARE.bits();
    const IN_PLACE: Bits = Self::IN_PLACE.bits();
    const ACCESS_FLAG: Bits = Self::AF.bits();
    const SHAREABILITY: Bits = Self::INNER_SHAREABLE.bits();
    const DBM: Bits = Self::DBM.bits();
    const DIRTY: Bits = Self::WRITE.bits();
    const CLEAN: Bits = 0;
}

/// Stage 2 of one virtual machine, changed from EL2.
///
/// TLB maintenance acts on the *current* VMID, and which regime it means depends on HCR_EL2. So while changes are applied and
/// while gathers are finished, the CPU that does it
///
/// - is at EL2, and HCR_EL2.{E2H, TGE} is not {1, 1}: with both set, VMALLE1IS would act on EL2&0 and leave in TLBs what both
///   stages translate;
/// - has a VTTBR_EL2 with this VMID, under a VTCR_EL2.VS that is the same on every CPU; and an ISB since either was written.
///
/// The virtual machine may run on other CPUs meanwhile: what they hold is forgotten, and a window of break-before-make gives
/// them stage-2 faults, which the hypervisor retries. The CPU that makes the change never translates by these tables, so that
/// of [`crate::Licence::break_before_make`] the second promise is kept without doing anything, and no ISB is issued: the
/// exception return to the virtual machine synchronizes (with FEAT_ExS, only if SCTLR_EL2.EOS is set; and a caller that executes
/// AT for EL1&0 before has an ISB before that).
///
/// In-place resizing below BBM level 3 may bring conflict aborts, which hardware may report to EL2, or to the guest as of its
/// stage 1: the promise of [`crate::Tolerance::read`] is then about both, and EL2 answers with VMALLS12E1.
///
/// A VMID that is given to another machine is first forgotten by the caller (VMALLS12E1IS), as is everything when
/// HCR_EL2.FWB changes, which gives descriptors that TLBs hold another meaning.
#[cfg_attr(feature = "alloc", doc = include_str!("../../docs/dirty-logging.md"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage2 {
    /// Whose tables they are. The engine's maintenance acts on the VMID that VTTBR_EL2 holds: the platform can check it
    /// against this.
    pub vmid: u16,
    /// What the TLB maintenance of every CPU can do.
    pub tlb: TlbFeatures,
    /// What walkers write into leaves: the most that VTCR_EL2.{HA, HD} let those of any CPU write.
    pub hardware_updates: HardwareUpdates,
}

impl Regime for Stage2 {
    type Input = IntermediateAddr;
    type Attributes = Stage2Attributes;

    fn accepts<G: Granule>(self, geometry: Geometry<G>) -> bool {
        geometry.is_stage2()
    }

    fn hardware_updates(self) -> HardwareUpdates {
        self.hardware_updates
    }

    fn must_repeat(self) -> bool {
        self.tlb.repeat
    }
}

impl Maintains for Stage2 {
    const IS_OWN: bool = false;

    #[inline(always)]
    fn invalidate<G: Granule>(self, what: &Invalidation, layout: Layout, sink: &mut impl FnMut(Maintenance)) -> Rest {
        let (by_address, by_range) = match what.depth {
            Depth::LastLevel => (TlbiOp::IPAS2LE1IS, TlbiOp::RIPAS2LE1IS),
            Depth::AllLevels => (TlbiOp::IPAS2E1IS, TlbiOp::RIPAS2E1IS),
        };
        let mut rest = Rest::Combined;
        what.for_each::<G>(layout, self.tlb, &mut |one| {
            sink(match one {
                Invalidate::Address(address, hint) => {
                    Maintenance::Invalidate(by_address, operand_by_intermediate(hint, address))
                }
                Invalidate::Range(operand) => Maintenance::Invalidate(by_range, operand),
                Invalidate::Everything => {
                    rest = Rest::Nothing;
                    Maintenance::Invalidate(TlbiOp::VMALLS12E1IS, 0)
                }
            });
        });
        rest
    }

    #[inline(always)]
    fn invalidate_combined(self, sink: &mut impl FnMut(Maintenance)) {
        sink(Maintenance::Invalidate(TlbiOp::VMALLE1IS, 0));
    }
}
