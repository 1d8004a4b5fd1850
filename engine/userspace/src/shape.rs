//! What address spaces of a kernel have in common, and what leaves say of areas.

use pagetable::{El1, HardwareUpdates, Scope, TlbFeatures};
use vmsa::{Descriptor, Geometry, Granule, PhysAddr, Stage1Attributes};

use crate::area::Rights;

/// What address spaces of a kernel have in common.
#[derive(Clone, Copy, Debug)]
pub struct Shape<G: Granule> {
    /// The lower half.
    pub geometry: Geometry<G>,
    /// What the TLB maintenance of every CPU can do.
    pub tlb: TlbFeatures,
    /// What walkers write into leaves: the most that those of any CPU write.
    pub hardware_updates: HardwareUpdates,
    /// The memory type of what programs see: [`Stage1Attributes::memory`].
    pub memory: Stage1Attributes,
    /// Whether what may be executed alone is not readable: FEAT_PAN3 on every CPU, without which EL1 could read it all the same.
    pub has_execute_only: bool,
    /// The lowest address that is chosen, and that a hint or a stack that grows comes to.
    pub lowest: u64,
    /// The lowest address that a call may name: what it names below that is refused with EPERM.
    pub lowest_fixed: u64,
    /// The address behind the highest.
    pub highest: u64,
    /// Bytes that stay free below a stack that may grow.
    pub guard_bytes: u64,
}

/// What a leaf says beside what hardware reads.
pub(crate) struct Note;

impl Note {
    /// Bit 55: the frame counts a reference for this leaf. The frame of zeros does not.
    pub(crate) const COUNTED: Stage1Attributes = Stage1Attributes::from_bits_retain(1 << 55);
    /// Bit 56: the frame is the program's own, no file's.
    pub(crate) const OWN: Stage1Attributes = Stage1Attributes::from_bits_retain(1 << 56);
}

/// What may be written: hardware, or a fault, makes it dirty by clearing READ_ONLY. Without DBM a fault asks what is behind the leaf.
pub(crate) const WRITABLE: Stage1Attributes = Stage1Attributes::DBM;

/// All that the rights of a program decide.
const DECIDED: Stage1Attributes = Stage1Attributes::USER.union(Stage1Attributes::UXN);

impl<G: Granule> Shape<G> {
    /// The regime. The ASID is put in later: [`crate::current`].
    pub(crate) const fn regime(&self) -> El1 {
        El1 { scope: Scope::Asid(0), tlb: self.tlb, hardware_updates: self.hardware_updates }
    }

    /// Where room ends that is looked for below `wanted`: where a page does, and the highest address at the most.
    pub(crate) const fn ceiling(&self, wanted: u64) -> u64 {
        let lower = if wanted < self.highest { wanted } else { self.highest };
        lower & !(G::SIZE_BYTES - 1)
    }

    /// Whether a program with these rights may read.
    pub(crate) fn is_readable(&self, rights: Rights) -> bool {
        let implied = if self.has_execute_only { Rights::WRITE } else { Rights::WRITE.union(Rights::EXECUTE) };
        rights.intersects(Rights::READ.union(implied))
    }

    fn decided(&self, rights: Rights) -> Stage1Attributes {
        let user = if self.is_readable(rights) { Stage1Attributes::USER } else { Stage1Attributes::empty() };
        if rights.contains(Rights::EXECUTE) { user } else { user | Stage1Attributes::UXN }
    }

    /// A leaf for a program with these rights that may not be written.
    pub(crate) fn read_only(&self, rights: Rights) -> Stage1Attributes {
        self.memory
            | self.decided(rights)
            | Stage1Attributes::INNER_SHAREABLE
            | Stage1Attributes::AF
            | Stage1Attributes::NOT_GLOBAL
            | Stage1Attributes::PXN
            | Stage1Attributes::READ_ONLY
    }

    /// A leaf that is being written.
    pub(crate) fn written(&self, rights: Rights) -> Stage1Attributes {
        self.read_only(rights) ^ Stage1Attributes::READ_ONLY | WRITABLE
    }

    /// What `mprotect` sets and clears in leaves. What may be written now and could not be before asks by a fault.
    pub(crate) fn change(&self, rights: Rights) -> (Stage1Attributes, Stage1Attributes) {
        let (set, clear) = (self.decided(rights), DECIDED - self.decided(rights));
        if rights.contains(Rights::WRITE) {
            return (set, clear);
        }
        (set | Stage1Attributes::READ_ONLY, clear | WRITABLE)
    }
}

/// A leaf as address spaces see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    /// The frame of the page that was looked at.
    pub(crate) frame: PhysAddr,
    pub(crate) attributes: Stage1Attributes,
}

impl Leaf {
    pub(crate) fn new(frame: PhysAddr, descriptor: Descriptor) -> Self {
        Self { frame, attributes: Stage1Attributes::from_bits_retain(descriptor.bits()) }
    }

    /// Whether it was found in a table of level 1 or 2.
    pub(crate) const fn is_of_block(&self) -> bool {
        self.attributes.bits() & (Descriptor::TYPE ^ Descriptor::VALID) == 0
    }

    pub(crate) const fn has(&self, attributes: Stage1Attributes) -> bool {
        self.attributes.contains(attributes)
    }
}
