//! Threads that are ready: those that may run on the same CPUs in the order in which they run, one list for each set of CPUs.
//!
//! ```text
//! CPUs 0 1 2 3   thread ─▶ thread ─▶ thread        who runs next on a CPU is the first of a list that has it: of those, the one
//! CPU    1       thread ─▶ thread                  that has been ready longest. To find it takes as long however many there are
//! ```

use hardware::per_cpu::MAX_CPUS;

use super::thread::Thread;
use crate::fallible::Arc;

/// Sets of CPUs.
const SETS: usize = 1 << MAX_CPUS;
const WORDS: usize = SETS / 64;

/// Threads whose CPUs have changed since they became ready, and are put elsewhere before one runs.
const MOST_MOVED: usize = 32;

/// Threads that are ahead of one that is woken.
const AHEAD: usize = 4;

/// The sets that have a CPU, a bit each.
static SETS_WITH: [[u64; WORDS]; MAX_CPUS] = sets_with();

const fn sets_with() -> [[u64; WORDS]; MAX_CPUS] {
    let (mut all, mut set) = ([[0; WORDS]; MAX_CPUS], 0);
    while set < SETS {
        let mut cpu = 0;
        while cpu < MAX_CPUS {
            all[cpu][set / 64] |= (set as u64 >> cpu & 1) << (set % 64);
            cpu += 1;
        }
        set += 1;
    }
    all
}

/// Threads behind each other.
struct Line {
    first: Option<Arc<Thread>>,
    last: Option<Arc<Thread>>,
}

pub(super) struct Ready {
    lines: [Line; SETS],
    /// The lines that are not empty.
    used: [u64; WORDS],
    /// Counts those that became ready.
    turns: u64,
}

/// What was found for a CPU.
pub(super) enum Found {
    Thread(Arc<Thread>),
    Nothing,
    /// Some were put elsewhere: there may be more.
    Again,
}

/// The set of CPUs that a thread may run on.
fn set(thread: &Thread) -> usize {
    thread.may_run_on() as usize % SETS
}

impl Ready {
    pub(super) const fn new() -> Self {
        Self { lines: [const { Line { first: None, last: None } }; SETS], used: [0; WORDS], turns: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used == [0; WORDS]
    }

    /// Puts a thread behind all others.
    pub(super) fn push(&mut self, thread: Arc<Thread>) {
        self.turns += 1;
        thread.turn.set(self.turns);
        let set = set(&thread);
        self.used[set / 64] |= 1 << (set % 64);
        let line = &mut self.lines[set];
        match line.last.replace(thread.clone()) {
            Some(last) => last.next.set(Some(thread)),
            None => line.first = Some(thread),
        }
    }

    /// Puts a thread behind few others.
    pub(super) fn push_early(&mut self, thread: Arc<Thread>) {
        let mut ahead = self.lines[set(&thread)].first.clone();
        for _ in 1..AHEAD {
            let Some(next) = ahead.as_ref().and_then(|ahead| ahead.behind()) else { break };
            ahead = Some(next);
        }
        match ahead.and_then(|ahead| Some((ahead.next.take()?, ahead))) {
            Some((behind, ahead)) => {
                thread.turn.set(ahead.turn.get());
                thread.next.set(Some(behind));
                ahead.next.set(Some(thread));
            }
            None => self.push(thread),
        }
    }

    fn pop(&mut self, set: usize) -> Option<Arc<Thread>> {
        let line = &mut self.lines[set];
        let thread = line.first.take()?;
        line.first = thread.next.take();
        if line.first.is_none() {
            line.last = None;
            self.used[set / 64] &= !(1 << (set % 64));
        }
        Some(thread)
    }

    /// The line of a CPU whose first thread has been ready longest.
    fn longest(&self, cpu: usize) -> Option<usize> {
        let mut longest = None;
        for (word, (used, with)) in self.used.iter().zip(&SETS_WITH[cpu]).enumerate() {
            let mut left = used & with;
            while left != 0 {
                let set = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                let turn = self.lines[set].first.as_ref().map_or(u64::MAX, |first| first.turn.get());
                if longest.is_none_or(|(least, _)| turn < least) {
                    longest = Some((turn, set));
                }
            }
        }
        longest.map(|(_, set)| set)
    }

    /// Takes the thread that runs next on a CPU.
    pub(super) fn take(&mut self, cpu: usize) -> Found {
        for _ in 0..MOST_MOVED {
            let Some((line, thread)) = self.longest(cpu).and_then(|line| Some((line, self.pop(line)?))) else {
                return Found::Nothing;
            };
            if set(&thread) == line {
                return Found::Thread(thread);
            }
            self.push(thread);
        }
        Found::Again
    }
}

impl Thread {
    /// The thread behind it in a line.
    fn behind(&self) -> Option<Arc<Self>> {
        let next = self.next.take();
        self.next.set(next.clone());
        next
    }
}
