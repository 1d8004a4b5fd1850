//! Signals that wait, and timers, by whose they are: RLIMIT_SIGPENDING counts those of all of a user's processes.

use userspace::Map;

use crate::locks::{Lock, order};

/// How many each real user has; who has none is not there.
static COUNTS: Lock<Map<u32, u64>> = Lock::new(order::QUEUED, Map::new());

/// One signal or timer, which counts for its user until it is dropped, whoever its process is by then.
pub(crate) struct Charge(u32);

impl Charge {
    /// One more, if there is memory for the count, and it is not `most` already.
    pub(crate) fn new(user: u32, most: u64) -> Option<Self> {
        COUNTS.with(|counts| {
            let count = counts.get(&user).map_or(0, |count| *count);
            if count >= most {
                return None;
            }
            counts.insert(user, count + 1).ok().map(|_| Self(user))
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        COUNTS.with(|counts| match counts.get_mut(&self.0) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.0)),
        });
    }
}

/// How many a user has.
pub(crate) fn count(user: u32) -> u64 {
    COUNTS.with(|counts| counts.get(&user).map_or(0, |count| *count))
}

/// Gives back what the counts have of the heap, if there are none any more.
pub(super) fn forget_empty() {
    drop(COUNTS.with(|counts| if counts.is_empty() { core::mem::take(counts) } else { Map::new() }));
}
