//! Translation regimes: whose addresses they are, what attributes mean, and how TLBs are made to forget.

use vmsa::maintenance::{Maintenance, TlbiOp, operand_by_address, operand_by_asid};
use vmsa::{Address, Granule, Layout, Stage1Attributes, VirtAddr};

use crate::invalidation::{Depth, Invalidate, Invalidation, TlbFeatures};

/// Attributes of a leaf: descriptor bits, whatever they mean.
pub trait Attributes: Copy + Eq + core::fmt::Debug + Into<u64> {
    /// Bits that hardware does not look at: a change of these needs no TLB maintenance.
    const IGNORED: u64;
    /// Bits that may change in a live leaf without break-before-make, with a TLBI afterwards (DDI 0487, RWHZWS).
    const IN_PLACE: u64;
    /// The access flag: setting it needs no TLB maintenance, because a leaf without it is never cached.
    const ACCESS_FLAG: u64;
    /// The shareability field, which LPA2 descriptors do not have.
    const SHAREABILITY: u64;
    /// Bits that hardware changes when it manages the dirty state.
    const DIRTY: u64;
    /// How a leaf becomes clean: leaves that have all bits of the first get those of the second set and of the third
    /// cleared. The first tells that the dirty state is managed by hardware (DBM).
    const CLEAN: (u64, u64, u64);

    /// Attribute bits that say both what `one` and what `other` say of accesses and writes.
    fn gather(one: u64, other: u64) -> u64;

    /// `bits` with what hardware wrote between `before` and `after`: accessed, dirty.
    fn keep_hardware_writes(bits: u64, before: u64, after: u64) -> u64;
}

impl Attributes for Stage1Attributes {
    const IGNORED: u64 = Self::SOFTWARE.bits();
    const IN_PLACE: u64 = Self::USER
        .union(Self::READ_ONLY)
        .union(Self::AF)
        .union(Self::DBM)
        .union(Self::NO_EXECUTE)
        .union(Self::GUARDED)
        .union(Self::SOFTWARE)
        .bits();
    const ACCESS_FLAG: u64 = Self::AF.bits();
    const SHAREABILITY: u64 = Self::INNER_SHAREABLE.bits();
    const DIRTY: u64 = Self::READ_ONLY.bits();
    const CLEAN: (u64, u64, u64) = (Self::DBM.bits(), Self::READ_ONLY.bits(), 0);

    fn gather(one: u64, other: u64) -> u64 {
        // Dirty is READ_ONLY clear.
        (one | other & Self::ACCESS_FLAG) & !(Self::DIRTY & !other)
    }

    fn keep_hardware_writes(bits: u64, before: u64, after: u64) -> u64 {
        let accessed = after & !before & Self::ACCESS_FLAG;
        let dirtied = before & !after & Self::DIRTY;
        let is_managed = bits & Self::DBM.bits() != 0;
        (bits | accessed) & !if is_managed { dirtied } else { 0 }
    }
}

/// Who translates. A type and a value, so that impossible calls do not compile.
pub trait Regime: Copy {
    /// The addresses that are translated.
    type Input: Address;
    /// What a leaf can say.
    type Attributes: Attributes;

    /// Whether hardware writes the access flag or the dirty state of descriptors on its own.
    fn has_hardware_updates(self) -> bool;

    /// Whether each TLBI and its DSB must be issued twice.
    fn must_repeat(self) -> bool;

    /// Gives `sink` the TLBIs that make every TLB forget. The caller has a DSB before, and one after.
    fn invalidate<G: Granule>(self, what: &Invalidation, layout: Layout, sink: &mut impl FnMut(Maintenance));
}

/// Whose translations a stage-1 page table of EL1&0 holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Every address space's: global leaves, of the kernel.
    Global,
    /// One address space's: non-global leaves, with this ASID.
    Asid(u16),
}

/// Stage 1 of the EL1&0 regime, seen from EL1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct El1 {
    /// Whose translations they are.
    pub scope: Scope,
    /// What the TLB maintenance of every CPU can do.
    pub tlb: TlbFeatures,
    /// TCR_EL1.HA or HD is set on some CPU, so that walkers write descriptors.
    pub hardware_updates: bool,
}

impl Regime for El1 {
    type Input = VirtAddr;
    type Attributes = Stage1Attributes;

    fn has_hardware_updates(self) -> bool {
        self.hardware_updates
    }

    fn must_repeat(self) -> bool {
        self.tlb.repeat
    }

    #[inline(always)]
    fn invalidate<G: Granule>(self, what: &Invalidation, layout: Layout, sink: &mut impl FnMut(Maintenance)) {
        // Kernel tables are walked under every ASID, and walk-cache entries carry the ASID they were made under: what is
        // global goes by the all-ASID forms (RCHVGJ).
        let (by_address, by_range, everything, asid) = match (self.scope, what.depth) {
            (Scope::Global, Depth::LastLevel) => (TlbiOp::VAALE1IS, TlbiOp::RVAALE1IS, TlbiOp::VMALLE1IS, 0),
            (Scope::Global, Depth::AllLevels) => (TlbiOp::VAAE1IS, TlbiOp::RVAAE1IS, TlbiOp::VMALLE1IS, 0),
            (Scope::Asid(asid), Depth::LastLevel) => (TlbiOp::VALE1IS, TlbiOp::RVALE1IS, TlbiOp::ASIDE1IS, asid),
            (Scope::Asid(asid), Depth::AllLevels) => (TlbiOp::VAE1IS, TlbiOp::RVAE1IS, TlbiOp::ASIDE1IS, asid),
        };
        let asid_field = operand_by_asid(asid);
        what.for_each::<G>(layout, self.tlb, &mut |one| {
            sink(match one {
                Invalidate::Address(address, hint) => {
                    Maintenance::Invalidate(by_address, operand_by_address(asid, hint, address))
                }
                Invalidate::Range(operand) => Maintenance::Invalidate(by_range, asid_field | operand),
                Invalidate::Everything => Maintenance::Invalidate(everything, asid_field),
            });
        });
    }
}
