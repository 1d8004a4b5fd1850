//! What is wanted, and why it may be refused.

use core::fmt;
use core::ops::Range;

use vmsa::{Address, Bits, Geometry, Granule, LeafSize, PhysAddr};

use crate::regime::Regime;

/// A change to a page table, as data. A range's end of 0 after a start that is not 0 is the end of the upper half; a range
/// that is empty asks for nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change<R: Regime> {
    /// Maps a range that holds no mapping, with the largest leaves that fit and that `largest` allows ([`LeafSize::allows`]): a
    /// single leaf as bound allows no contiguous groups of any level. What later changes make of the leaves is bounded by the page
    /// table ([`crate::PageTable::with_largest`]), which bounds this one too.
    Map {
        /// The range.
        from: Range<R::Input>,
        /// Where its first byte leads.
        to: PhysAddr,
        /// The attributes of every leaf. In LPA2 descriptors shareability is not among them: TCR decides it.
        attributes: R::Attributes,
        /// What leaves may be used.
        largest: LeafSize,
    },
    /// The same, whatever the range holds now. A live leaf or table that gives way needs break-before-make; a leaf stays that is
    /// what it would become, but for what hardware marked, and so does a live table without a valid leaf, which is filled leaf by leaf.
    Remap {
        /// The range.
        from: Range<R::Input>,
        /// Where its first byte leads.
        to: PhysAddr,
        /// The attributes of every leaf.
        attributes: R::Attributes,
        /// What leaves may be used.
        largest: LeafSize,
    },
    /// Changes attributes of a range that is mapped, or kept, throughout; first `clear`, then `set`. A contiguous group whose
    /// dirty state hardware manages no longer becomes single leaves, for their marks may differ.
    Protect {
        /// The range.
        from: Range<R::Input>,
        /// Bits to set.
        set: R::Attributes,
        /// Bits to clear, before the others are set.
        clear: R::Attributes,
    },
    /// The same of a range that may have holes.
    ProtectSparse {
        /// The range.
        from: Range<R::Input>,
        /// Bits to set.
        set: R::Attributes,
        /// Bits to clear, before the others are set.
        clear: R::Attributes,
    },
    /// Removes what is mapped in a range, which may have holes.
    Unmap {
        /// The range.
        from: Range<R::Input>,
    },
    /// Removes what is mapped in a range, which may not have holes.
    UnmapMapped {
        /// The range.
        from: Range<R::Input>,
    },
    /// Makes a range invalid, but keeps what it was: a *kept* leaf differs from a valid one in bit 0 alone. The range is
    /// mapped, or kept, throughout.
    MakeInvalid {
        /// The range.
        from: Range<R::Input>,
    },
    /// Makes kept leaves valid again. The range is mapped, or kept, throughout.
    MakeValid {
        /// The range.
        from: Range<R::Input>,
    },
    /// Clears the access flag of what is mapped in a range.
    Age {
        /// The range.
        from: Range<R::Input>,
    },
    /// Makes what is mapped in a range and has DBM clean. The next write sets it again, where hardware manages the dirty state;
    /// else the next write faults.
    Clean {
        /// The range.
        from: Range<R::Input>,
    },
    /// Makes `at` a boundary between leaves, with the largest leaves that have one there. Nothing else changes.
    Split {
        /// The boundary.
        at: R::Input,
    },
    /// Makes every leaf of a range a single page; a leaf that lies partly in the range becomes smaller where it does.
    SplitToPages {
        /// The range.
        from: Range<R::Input>,
    },
    /// Makes the leaves of a range as large as the page table's bound and their content allow: tables whose leaves are alike and lead to neighbours fold into
    /// blocks, blocks and pages into contiguous groups, and tables that hold nothing go.
    Collapse {
        /// The range.
        from: Range<R::Input>,
    },
}

impl<R: Regime> Change<R> {
    /// Maps a range that holds no mapping, with the largest leaves that fit: [`Self::Map`] from numbers.
    pub fn map(from: Range<u64>, to: u64, attributes: R::Attributes) -> Self {
        let from = from.start.into()..from.end.into();
        Self::Map { from, to: PhysAddr::new(to), attributes, largest: LeafSize::LARGEST }
    }

    /// Where the range of a change that is sound lies in the input space. A boundary is a page.
    pub(crate) fn offsets<G: Granule>(&self, geometry: Geometry<G>) -> (u64, u64) {
        let (start, end) = match self {
            Self::Map { from, .. }
            | Self::Remap { from, .. }
            | Self::Protect { from, .. }
            | Self::ProtectSparse { from, .. }
            | Self::Unmap { from }
            | Self::UnmapMapped { from }
            | Self::MakeInvalid { from }
            | Self::MakeValid { from }
            | Self::Age { from }
            | Self::Clean { from }
            | Self::SplitToPages { from }
            | Self::Collapse { from } => (from.start.bits(), from.end.bits()),
            Self::Split { at } => (at.bits(), at.bits().wrapping_add(G::SIZE_BYTES)),
        };
        (start.wrapping_sub(geometry.base()), end.wrapping_sub(geometry.base()))
    }
}

/// Why a change is refused: always before the first store, with the address that caused it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The range is not in the part of the input space that this page table translates: its first address that is outside.
    OutOfRange(u64),
    /// The range is not in the [`crate::Part`] that is edited: its first address that is outside.
    OutsidePart(u64),
    /// The range ends at this address, before it starts.
    Backward(u64),
    /// The input address is not the start of a page.
    Misaligned(u64),
    /// The output address is not the start of a page.
    MisalignedOutput(PhysAddr),
    /// The output address, or the end of the range that starts there, has more bits than descriptors can hold.
    OutputTooWide(PhysAddr),
    /// Two changes of one list meet at this address.
    Overlap(u64),
    /// Something is mapped, or kept, there already.
    AlreadyMapped(u64),
    /// Nothing is mapped there.
    NotMapped(u64),
    /// A live leaf would change size, grouping or memory type, and no licence was given.
    NeedsLicence(u64),
    /// A live leaf or table would change output address or memory type, for which the licence is not enough: only
    /// break-before-make will do.
    NeedsBreak(u64),
    /// The leaf there could not be told from a hole if it were kept: none of its bits but the type is set.
    NotKeepable(u64),
    /// These attribute bits are no attributes: they belong to the type, the output address or the Contiguous bit.
    NotAttributes(Bits),
    /// The reserve holds too few tables; it lacks this many.
    ReserveShortBy(usize),
    /// The regime has no page tables of that geometry, or none with a root of so many tables out of a reserve.
    Shape {
        /// Tables of the root.
        root_tables: usize,
    },
    /// The root's memory is not aligned as hardware wants it.
    MisalignedRoot {
        /// Where it is.
        root: PhysAddr,
        /// What its address is to be a multiple of, in bytes.
        align: u64,
    },
}

impl Refusal {
    /// Why a page table of this shape has no such range.
    #[cold]
    pub(crate) const fn of_range<G: Granule>(geometry: Geometry<G>, start: u64, end: u64) -> Self {
        match geometry.offset(start) {
            None => Self::OutOfRange(start),
            Some(_) if end != 0 && end < start => Self::Backward(end),
            Some(_) => Self::OutOfRange(geometry.input(geometry.input_bytes())),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange(at) => write!(f, "{at:#x} is outside the page table's input addresses"),
            Self::OutsidePart(at) => write!(f, "{at:#x} is outside the part that is edited"),
            Self::Backward(end) => write!(f, "the range ends at {end:#x}, before it starts"),
            Self::Misaligned(at) => write!(f, "{at:#x} is not the start of a page"),
            Self::MisalignedOutput(at) => write!(f, "output address {at:?} is not the start of a page"),
            Self::OutputTooWide(at) => write!(f, "output address {at:?} has more bits than a descriptor holds"),
            Self::Overlap(at) => write!(f, "two changes of one list meet at {at:#x}"),
            Self::AlreadyMapped(at) => write!(f, "{at:#x} is mapped already"),
            Self::NotMapped(at) => write!(f, "{at:#x} is not mapped"),
            Self::NeedsLicence(at) => write!(f, "the live leaf at {at:#x} may not change without a licence"),
            Self::NeedsBreak(at) => write!(f, "the live leaf at {at:#x} may not change but by break-before-make"),
            Self::NotKeepable(at) => write!(f, "the leaf at {at:#x} could not be told from a hole"),
            Self::NotAttributes(bits) => write!(f, "{bits:#x} are no attribute bits"),
            Self::ReserveShortBy(1) => f.write_str("the reserve lacks 1 table"),
            Self::ReserveShortBy(count) => write!(f, "the reserve lacks {count} tables"),
            Self::Shape { root_tables: 1 } => f.write_str("the regime has no page tables of that geometry"),
            Self::Shape { root_tables } => write!(f, "a root of {root_tables} tables side by side cannot be had so"),
            Self::MisalignedRoot { root, align } => write!(f, "a root at {root:?}, expected a multiple of {align:#x}"),
        }
    }
}

impl core::error::Error for Refusal {}
