//! What a process has asked for, which is kept for who asks: a child has the same.

/// What `prctl`, `personality` and writes to `/proc` set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wishes {
    /// `oom_score_adj`: how much rather than others it ends where there is no memory, -1000 for never.
    pub(crate) badness: i32,
    /// Below this it becomes so by root alone.
    pub(crate) least_badness: i32,
    /// `personality`.
    pub(crate) personality: u32,
    /// PR_SET_TIMERSLACK: nanoseconds that a wait may come late.
    pub(crate) slack: u64,
    /// PR_SET_NO_NEW_PRIVS.
    pub(crate) gains_nothing: bool,
    /// PR_SET_THP_DISABLE.
    pub(crate) is_without_blocks: bool,
    /// PR_SET_KEEPCAPS.
    pub(crate) keeps_capabilities: bool,
    /// PR_SET_IO_FLUSHER.
    pub(crate) flushes: bool,
    /// PR_SET_TAGGED_ADDR_CTRL: calls take addresses whose top byte is a tag.
    pub(crate) has_tags: bool,
    /// What was announced to `membarrier`, a bit for each command.
    pub(crate) barriers: u64,
    /// PR_MCE_KILL.
    pub(crate) when_memory_fails: u32,
    /// PR_CAPBSET_DROP: the capabilities that are left, a bit each.
    pub(crate) capabilities: u64,
}

/// All that Linux knows.
pub(crate) const ALL_CAPABILITIES: u64 = 0x1ff_ffff_ffff;
/// Nanoseconds, if nothing else is asked for.
pub(crate) const SLACK: u64 = 50_000;
/// PR_MCE_KILL_DEFAULT.
pub(crate) const USUAL: u32 = 2;

impl Default for Wishes {
    fn default() -> Self {
        Self {
            badness: 0,
            least_badness: 0,
            personality: 0,
            slack: SLACK,
            gains_nothing: false,
            is_without_blocks: false,
            keeps_capabilities: false,
            flushes: false,
            has_tags: false,
            barriers: 0,
            when_memory_fails: USUAL,
            capabilities: ALL_CAPABILITIES,
        }
    }
}
