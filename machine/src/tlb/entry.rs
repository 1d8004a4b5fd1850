//! One entry that a TLB or walk cache may hold. (DDI 0487, D8.16, RRVJDB: anything that holds a descriptor)

use crate::attributes::{Attributes, Permissions};
use crate::context::{Regime, Tag};
use crate::descriptor::Hierarchy;
use crate::event::Level;
use crate::geometry::Granule;
use crate::syndrome::{Fault, FaultKind};

/// Which page table an entry came from: the number that the machine gave it when it first became live.
pub type SpaceId = u32;

/// What an entry answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Body {
    /// Where the walk goes on: the physical address of the next table.
    Table {
        /// Physical address of the next table.
        next: u64,
        /// Limits on everything below it.
        hierarchy: Hierarchy,
    },
    /// A translation.
    Leaf {
        /// Physical (for stage 2 beneath nothing: also physical) address of [`Entry::start`].
        output: u64,
        /// Attributes, of both stages if combined.
        attributes: Attributes,
    },
}

/// The stage-2 half of a combined leaf: what a fault of stage 2 reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Second {
    /// Level of stage 2's leaf.
    pub level: i8,
    /// Base-2 logarithm of what stage 2's descriptor covers.
    pub own_log2: u8,
    /// What stage 2 permits.
    pub permissions: Permissions,
    /// Intermediate physical address of [`Entry::start`].
    pub intermediate: u64,
}

/// An entry, without its ASID and the CPUs that may hold it: see `holders`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Entry {
    /// Regime and VMID.
    pub tag: Tag,
    /// Base-2 logarithm of the bytes that it may translate.
    pub size_log2: u8,
    /// First input address that it may translate: with the Contiguous bit, of the whole set.
    pub start: u64,
    /// First input address of the descriptor it came from.
    pub own_start: u64,
    /// Base-2 logarithm of what that descriptor covers: more than `size_log2` where stage 2's leaf was smaller.
    pub own_log2: u8,
    /// Level of the descriptor.
    pub level: i8,
    /// Granule.
    pub granule: Granule,
    /// Stage 1 and stage 2 in one.
    pub is_combined: bool,
    /// What stage 2 said, in a combined leaf.
    pub second: Option<Second>,
    /// The descriptor; of stage 1 if combined.
    pub descriptor: u64,
    /// The answer.
    pub body: Body,
    /// Members of a contiguous set that it no longer translates, because each was invalidated by its own address.
    pub holes: u128,
    /// Page table.
    pub space: SpaceId,
}

impl Entry {
    /// Last input address that it may translate.
    pub const fn last(&self) -> u64 {
        self.start + (bytes(self.size_log2) - 1)
    }

    /// Last input address of its descriptor.
    pub const fn own_last(&self) -> u64 {
        self.own_start + (bytes(self.own_log2) - 1)
    }

    /// Base-2 logarithm of what stage 2's descriptor covers, if it is combined with one.
    pub(crate) fn stage2_log2(&self) -> Option<u8> {
        self.second.map(|it| it.own_log2)
    }

    /// The larger of what it translates and what its descriptor covers.
    pub const fn span(&self) -> (u64, u8) {
        if self.size_log2 > self.own_log2 { (self.start, self.size_log2) } else { (self.own_start, self.own_log2) }
    }

    /// True when it may translate an address from `first` to `last`.
    pub fn overlaps(&self, first: u64, last: u64) -> bool {
        if self.start > last || self.last() < first {
            return false;
        }
        self.holes == 0 || {
            let covered = self.members(first.max(self.start), last.min(self.last()));
            covered & !self.holes != 0
        }
    }

    /// The members of its contiguous set that lie within `first..=last`, as bits.
    pub fn members(&self, first: u64, last: u64) -> u128 {
        if self.start > last || self.last() < first {
            return 0;
        }
        let number = |address: u64| (address - self.start) >> self.own_log2;
        let (low, high) = (number(first.max(self.start)), number(last.min(self.last())));
        let up_to = |n: u64| if n >= 127 { u128::MAX } else { (1 << (n + 1)) - 1 };
        up_to(high) & !(if low == 0 { 0 } else { up_to(low - 1) })
    }

    /// Output address for input `address`; for a table the address of the next one.
    pub const fn output_at(&self, address: u64) -> u64 {
        match self.body {
            Body::Table { next, .. } => next,
            Body::Leaf { output, .. } => output.wrapping_add(address.wrapping_sub(self.start)),
        }
    }

    /// The memory that it leads to: the next table, or all that it may output. Base-2 logarithm of the size, and the first
    /// address.
    pub(crate) const fn output_span(&self) -> (u8, u64) {
        match self.body {
            Body::Table { next, .. } => (self.granule.shift(), next),
            Body::Leaf { output, .. } => (self.size_log2, output),
        }
    }

    /// True when it leads to memory from `first` to `last`.
    pub(crate) fn leads_to(&self, first: u64, last: u64) -> bool {
        let (log2, output) = self.output_span();
        let (low, high) = (first.wrapping_sub(output), last.wrapping_sub(output));
        let most = bytes(log2) - 1;
        let low = if low <= high { low } else { 0 };
        // Members of a contiguous set that were taken out lead to nothing.
        low <= most && self.overlaps(self.start + low, self.start + high.min(most))
    }

    /// The fault of an access to `address` that needs `needed`, if this leaf does not permit it.
    pub fn permission_fault(&self, address: u64, needed: u8) -> Option<Fault> {
        let attributes = self.attributes()?;
        if attributes.permissions.has(needed) {
            return None;
        }
        Some(match self.second {
            Some(second) if !second.permissions.has(needed) => {
                Fault::stage2(FaultKind::Permission, second.level, second.intermediate + (address - self.start))
            }
            _ => Fault::stage1(FaultKind::Permission, self.level),
        })
    }

    /// True for a walk-cache entry.
    pub const fn is_table(&self) -> bool {
        matches!(self.body, Body::Table { .. })
    }

    /// Attributes of a leaf.
    pub const fn attributes(&self) -> Option<&Attributes> {
        match &self.body {
            Body::Leaf { attributes, .. } => Some(attributes),
            Body::Table { .. } => None,
        }
    }

    /// True when it matches every ASID: global leaves, and everything in a regime without ASIDs.
    /// Entries that are not of the last level are never global. (RCHVGJ)
    pub const fn is_global(&self) -> bool {
        match (self.tag.regime, &self.body) {
            (Regime::El2 | Regime::Stage2, _) => true,
            (_, Body::Table { .. }) => false,
            (_, Body::Leaf { attributes, .. }) => attributes.is_global,
        }
    }

    /// True when the CPU that invalidates it is sure of that only after a context synchronization event, and not after
    /// the DSB: leaves that it may be executing, and without FEAT_ETS2 whatever serves input addresses. What EL0 alone may execute it
    /// does not execute before it returns there, which is such an event. (RBLDZX)
    pub fn lingers(&self, has_ets: bool, level: Level) -> bool {
        let may_execute =
            |it: Permissions| if level == Level::El0 { it.is_executable() } else { it.has(Permissions::EXECUTE) };
        let is_executable = self.attributes().is_some_and(|it| may_execute(it.permissions));
        self.tag.regime != Regime::Stage2 && (!has_ets || is_executable)
    }
}

/// 2^`log2`, for sizes below the whole address space.
pub(crate) const fn bytes(log2: u8) -> u64 {
    1 << log2
}

impl core::fmt::Display for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let regime = match self.tag.regime {
            Regime::El10 if self.is_combined => "EL1&0 combined",
            Regime::El10 => "EL1&0",
            Regime::El2 => "EL2",
            Regime::El20 => "EL2&0",
            Regime::Stage2 => "stage 2",
        };
        let (start, last) = (self.start, self.last());
        match &self.body {
            Body::Table { next, .. } => {
                write!(f, "{regime} level-{} table {start:#x}..={last:#x} -> {next:#x}", self.level)
            }
            Body::Leaf { output, attributes } => {
                let scope = if attributes.is_global { "global" } else { "non-global" };
                let contiguous = if attributes.is_contiguous { " contiguous" } else { "" };
                let shareability = ["non-shareable", "reserved", "outer shareable", "inner shareable"];
                let shareability = shareability[usize::from(attributes.shareability & 3)];
                write!(
                    f,
                    "{regime} level-{} leaf {start:#x}..={last:#x} -> {output:#x} {} {} {shareability} {scope}{contiguous}",
                    self.level, attributes.permissions, attributes.memory
                )
            }
        }
    }
}
