//! `vellum.folio=`.

/// The largest folios of programs: what a write to anonymous memory fills at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Folios {
    /// A page.
    Never,
    /// A block where a program advises it (MADV_HUGEPAGE), a page elsewhere.
    #[default]
    Advised,
    /// The same, and contiguous groups elsewhere.
    Group,
    /// A block, or a group where it has no room.
    Block,
}
