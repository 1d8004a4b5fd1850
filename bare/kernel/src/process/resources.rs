//! How much of each resource a process may have: `prlimit`.

use userspace::Limits;

/// No limit.
pub(crate) const INFINITE: u64 = u64::MAX;
/// RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE, and how many resources there are.
pub(crate) const SECONDS: usize = 0;
pub(crate) const FILE_BYTES: usize = 1;
pub(crate) const FILES: usize = 7;
/// RLIMIT_RSS.
pub(crate) const RESIDENT: usize = 5;
/// RLIMIT_SIGPENDING.
pub(crate) const SIGNALS: usize = 11;
pub(crate) const COUNT: usize = 16;
const DATA: usize = 2;
const STACK: usize = 3;
const LOCKED: usize = 8;
const ADDRESSES: usize = 9;

/// Soft and hard limit of each, by the numbers that `prlimit` has for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources(pub(crate) [[u64; 2]; COUNT]);

impl Resources {
    /// Those that Linux begins with.
    pub(crate) fn usual() -> Self {
        let mut all = [[INFINITE; 2]; COUNT];
        // Of threads and waiting signals, of locked memory, of queues and priorities.
        let others =
            [(4, [0, INFINITE]), (6, [16384; 2]), (LOCKED, [8 << 20; 2]), (SIGNALS, [16384; 2]), (12, [819_200; 2])];
        others.into_iter().for_each(|(which, limit)| all[which] = limit);
        // RLIMIT_NICE and RLIMIT_RTPRIO.
        (all[13], all[14]) = ([0; 2], [0; 2]);
        all[STACK] = [8 << 20, INFINITE];
        all[FILES] = [1024, 4096];
        Self(all)
    }

    /// Those that address spaces keep, of who may lock all that there is or not.
    pub(crate) fn of_memory(&self, locks_all: bool) -> Limits {
        let soft = |which: usize| self.0[which][0];
        let locked = if locks_all { INFINITE } else { soft(LOCKED) };
        Limits { locked, stack: soft(STACK), data: soft(DATA), address_space: soft(ADDRESSES), ..Limits::USUAL }
    }
}
