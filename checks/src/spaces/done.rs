//! What programs did: what a run has to have come by, so that it shows something.

/// Counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Faults that the space was asked to answer.
    pub faults: u64,
    /// Reads that were told to be atomics'.
    pub atomics: u64,
    /// Contiguous groups that began, of pages that were alike again or by a write.
    pub made: u64,
    /// Groups that ended: by `mprotect`, `munmap`, MADV_DONTNEED and their like, by writes to what a fork shares.
    pub ended: u64,
    /// Parts of groups that were given to MADV_DONTNEED.
    pub given: u64,
    /// Forks of groups.
    pub forked: u64,
    /// Pages that moved away, and back.
    pub moved: u64,
    /// Pages that were written, and looked for once memory was short.
    pub kept: u64,
}

impl Done {
    /// Both together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            faults: self.faults + other.faults,
            atomics: self.atomics + other.atomics,
            made: self.made + other.made,
            ended: self.ended + other.ended,
            given: self.given + other.given,
            forked: self.forked + other.forked,
            moved: self.moved + other.moved,
            kept: self.kept + other.kept,
        }
    }
}
