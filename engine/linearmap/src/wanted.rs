//! What is wanted of pages of the map, from where, and the engine's changes that make it so.

use core::ops::Range;

use pagetable::{Change, El1, Licence, PageTable, Platform};
use vmsa::{Granule, LeafSize, PhysAddr, Stage1Attributes, VirtAddr};

use crate::shape::as_painted;

/// What is wanted of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// They cannot be written.
    ReadOnly,
    /// They can be written.
    Writable,
    /// EL1 can execute them.
    Executable,
    /// EL1 cannot execute them.
    NotExecutable,
    /// EL1 can execute them, and nobody can write them: both at once.
    ReadOnlyExecutable,
    /// They are hidden: kept as they are, but not valid.
    Hidden,
    /// They are valid again, as they were.
    Shown,
    /// They are valid and can be written.
    Default,
    /// They are valid, and lead elsewhere: what a realm shares with its host is at another address than before. Of what is hidden
    /// no TLB knows, so that this takes neither a licence nor a TLBI there.
    Leading {
        /// Output minus input address, modulo 2^64.
        displacement: u64,
        /// How they are mapped there.
        attributes: Stage1Attributes,
    },
    /// They are mapped, which they were not: memory arrives. A page of a range that is mapped, or hidden, refuses all of it.
    Present {
        /// Output minus input address, modulo 2^64.
        displacement: u64,
        /// How they are mapped: the access flag is added, and DBM left out, as where the map is painted.
        attributes: Stage1Attributes,
    },
    /// They are not mapped, and nothing is kept of them: memory goes. Tables that hold nothing then go with it.
    Absent,
}

/// From where a change is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// Pages may be allocated, which may wait.
    MayWait,
    /// Interrupts are masked, or a spinlock is held: tables come out of the map's reserve alone.
    Atomic,
}

impl Wanted {
    /// Everything that may be wanted where memory is.
    pub const ALL: [Self; 8] = [
        Self::ReadOnly,
        Self::Writable,
        Self::Executable,
        Self::NotExecutable,
        Self::ReadOnlyExecutable,
        Self::Hidden,
        Self::Shown,
        Self::Default,
    ];

    /// The bits that are set, and those that are cleared before, if attributes change.
    #[inline(always)]
    fn attributes(self) -> Option<(Stage1Attributes, Stage1Attributes)> {
        const NONE: Stage1Attributes = Stage1Attributes::empty();
        const READ_ONLY: Stage1Attributes = Stage1Attributes::READ_ONLY;
        // With hardware dirty state a read-only leaf with DBM is writable.
        const DBM: Stage1Attributes = Stage1Attributes::DBM;
        const PXN: Stage1Attributes = Stage1Attributes::PXN;
        match self {
            Self::ReadOnly => Some((READ_ONLY, DBM)),
            Self::Writable | Self::Default => Some((NONE, READ_ONLY)),
            Self::Executable => Some((NONE, PXN)),
            Self::NotExecutable => Some((PXN, NONE)),
            Self::ReadOnlyExecutable => Some((READ_ONLY, DBM.union(PXN))),
            Self::Hidden | Self::Shown | Self::Leading { .. } | Self::Present { .. } | Self::Absent => None,
        }
    }

    /// What becomes of bit 0, if anything.
    #[inline(always)]
    const fn is_valid(self) -> Option<bool> {
        match self {
            Self::Hidden => Some(false),
            Self::Shown | Self::Default => Some(true),
            _ => None,
        }
    }

    /// Gives `make` the changes of one range, one after the other, until one is refused. Attributes first: of a hidden page no TLB
    /// knows, so that neither change takes a TLBI there.
    #[inline(always)]
    pub(crate) fn each_change<E>(
        self,
        from: &Range<VirtAddr>,
        make: &mut impl FnMut(&Change<El1>) -> Result<(), E>,
    ) -> Result<(), E> {
        let from = || from.clone();
        if let Some((set, clear)) = self.attributes() {
            make(&Change::Protect { from: from(), set, clear })?;
        }
        match (self, self.is_valid()) {
            (_, Some(true)) => make(&Change::MakeValid { from: from() }),
            (_, Some(false)) => make(&Change::MakeInvalid { from: from() }),
            (Self::Leading { displacement, attributes }, _) => {
                let to = PhysAddr::new(from().start.bits().wrapping_add(displacement));
                make(&Change::Remap { from: from(), to, attributes, largest: LeafSize::LARGEST })
            }
            (Self::Present { displacement, attributes }, _) => {
                let to = PhysAddr::new(from().start.bits().wrapping_add(displacement));
                make(&Change::Map { from: from(), to, attributes: as_painted(attributes), largest: LeafSize::LARGEST })
            }
            (Self::Absent, _) => make(&Change::UnmapMapped { from: from() }),
            _ => Ok(()),
        }
    }

    /// Whether it is asked for of each page once, and of the map alone: tables may come free by it.
    pub(crate) const fn is_once(self) -> bool {
        matches!(self, Self::Leading { .. } | Self::Present { .. } | Self::Absent)
    }

    /// Whether it is one change of a range, not two.
    pub(crate) const fn is_one_change(self) -> bool {
        !matches!(self, Self::Default)
    }

    /// Makes it so of one page that is a leaf by itself, or by `licence` becomes one as its contiguous group ends, without a plan.
    /// Says whether it was one; if not, nothing has changed.
    #[inline(always)]
    pub(crate) fn is_made_of_page<G: Granule, P: Platform>(
        self,
        table: &mut PageTable<'_, G, El1, P>,
        page: VirtAddr,
        licence: Option<&Licence<'_>>,
    ) -> bool {
        // What takes the first of two changes, takes the second: it is the same leaf.
        !self.is_once()
            && self.attributes().is_none_or(|(set, clear)| table.protect_page(page, set, clear, licence))
            && self.is_valid().is_none_or(|is_valid| table.make_page_valid(page, is_valid, licence))
    }
}
