//! What a process has asked for, which is kept for who asks: a child has the same.

/// What `prctl`, `personality` and writes to `/proc` set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wishes {
    /// `oom_score_adj`: how much rather than others it ends where there is no memory, -1000 for never.
    pub(crate) badness: i32,
    /// Below this it becomes so by root alone.
    pub(crate) least_badness: i32,
    /// `personality`.
    pub(crate) personality: u32,
    /// PR_SET_THP_DISABLE.
    pub(crate) is_without_blocks: bool,
    /// PR_SET_TAGGED_ADDR_CTRL: calls take addresses whose top byte is a tag.
    pub(crate) has_tags: bool,
    /// What was announced to `membarrier`, a bit for each command.
    pub(crate) barriers: u64,
}
