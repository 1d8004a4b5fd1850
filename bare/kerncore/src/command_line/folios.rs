//! `vellum.folio=`.

/// The largest folios of programs: what a write to anonymous memory fills at once. Programs may change it (`/sys/kernel/mm/transparent_hugepage`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folios {
    /// A page.
    Never,
    /// A block where a program advises it (MADV_HUGEPAGE), a page elsewhere.
    Advised,
    /// The same, and contiguous groups elsewhere.
    Group,
    /// A block wherever it has room: Linux's own choice, as Debian configures it.
    Linux,
    /// A block, or a group where it has no room: so it is where nothing is said.
    Block,
}
