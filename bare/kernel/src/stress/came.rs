//! What comes of an operation of the stress.

/// What came of one.
pub(super) enum Came {
    Right,
    /// There was no memory for it.
    Refused,
    /// The realm's host did not do all that it was asked.
    Stopped,
    Wrong,
}

impl Came {
    /// What is told of two operations: the first that did not go well.
    pub(super) fn and(self, other: Self) -> Self {
        if let Self::Right = self { other } else { self }
    }
}
