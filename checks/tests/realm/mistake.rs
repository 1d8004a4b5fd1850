//! What a kernel may do wrong.

/// An obligation of the kernel's that it does not keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mistake {
    None,
    /// Pages are not hidden before the host is told.
    DoesNotHide,
    /// TLBs are left as they are.
    ForgetsTlbs,
    /// A CPU that does not tolerate a change goes on.
    ParksNobody,
    /// What is shared is shown at its own address, and what is not at the other.
    ShowsElsewhere,
    /// A host that has stopped is taken to have done all.
    BelievesTheHost,
    /// After a stop every page is taken to be RAM.
    AsksNoState,
}

pub(crate) const MISTAKES: [Mistake; 6] = [
    Mistake::DoesNotHide,
    Mistake::ForgetsTlbs,
    Mistake::ParksNobody,
    Mistake::ShowsElsewhere,
    Mistake::BelievesTheHost,
    Mistake::AsksNoState,
];
