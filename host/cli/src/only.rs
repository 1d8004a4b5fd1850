//! Which leaves a dump shows: `--only wx,user`, `--level 2`.

use image::{Root, Span};
use vmsa::{Level, Permissions, Rights, Stage1Attributes, Stage2Attributes};

use crate::leaf;

/// A property of leaves, by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Only {
    /// Writable and executable, by the same privilege level
    Wx,
    /// Writable
    W,
    /// Not writable
    Ro,
    /// Executable, by anyone
    X,
    /// Accessible to EL0
    User,
    /// Not accessible to EL0
    Kernel,
    /// Device memory of any type
    Device,
    /// Normal memory, not cached
    Nc,
    /// One of a contiguous group
    Cont,
    /// A block
    Block,
    /// A page
    Page,
    /// Belongs to every ASID
    Global,
    /// The access flag is clear
    Old,
    /// Guarded (BTI)
    Guarded,
    /// Hardware may make it writable (DBM)
    Dbm,
    /// Neither zero nor valid: what software keeps in an invalid descriptor
    Invalid,
}

/// What a dump shows of a page table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) levels: Vec<Level>,
    pub(crate) only: Vec<Only>,
}

impl Filter {
    /// Whether all is shown, holes included.
    pub(crate) fn is_all(&self) -> bool {
        self.levels.is_empty() && self.only.is_empty()
    }

    /// Whether a span is shown: it has all the properties asked for.
    pub(crate) fn shows(&self, root: &Root, span: &Span) -> bool {
        let at_level = self.levels.is_empty() || self.levels.contains(&span.level);
        at_level
            && self.only.iter().all(|only| only.holds(root, span))
            && (self.is_all() || span.descriptor.bits() != 0)
    }
}

impl Only {
    fn holds(self, root: &Root, span: &Span) -> bool {
        if !leaf::is_leaf(root, span) {
            return self == Self::Invalid && span.descriptor.bits() != 0;
        }
        let permits = |has: fn(&Permissions) -> bool| {
            root.permissions(span.descriptor, span.inherited).is_some_and(|permissions| has(&permissions))
        };
        let bits = Stage1Attributes::from_bits_retain(span.descriptor.bits());
        match self {
            Self::Wx => permits(|of| leaf::is_wx(of.privileged) || leaf::is_wx(of.unprivileged)),
            Self::W => permits(|of| of.privileged.contains(Rights::WRITE)),
            Self::Ro => permits(|of| !of.privileged.contains(Rights::WRITE)),
            Self::X => permits(|of| (of.privileged | of.unprivileged).contains(Rights::EXECUTE)),
            Self::User => permits(leaf::is_user),
            Self::Kernel => permits(|of| !leaf::is_user(of)),
            Self::Device => leaf::is_device(root, span.descriptor),
            Self::Nc => leaf::memory_name(root, span.descriptor) == "MEM/NORMAL-NC",
            Self::Cont => span.descriptor.is_contiguous(),
            Self::Block => span.level != Level::L3,
            Self::Page => span.level == Level::L3,
            Self::Global => root.is_stage1() && !bits.contains(Stage1Attributes::NOT_GLOBAL),
            Self::Old => !bits.contains(Stage1Attributes::AF),
            Self::Guarded => root.is_stage1() && bits.contains(Stage1Attributes::GUARDED),
            Self::Dbm => root.control.is_direct() && span.descriptor.bits() & Stage2Attributes::DBM.bits() != 0,
            Self::Invalid => false,
        }
    }
}
