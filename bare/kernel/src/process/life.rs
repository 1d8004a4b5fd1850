//! What changes in a process' life: its threads, and how it ends.

use core::sync::atomic::{AtomicBool, Ordering};

use userspace::Map;

use crate::fallible::{Arc, NoMemory};
use crate::locks::Lock;
use crate::threads::thread::{Spent, Thread};

/// Threads that are looked at while the lock of their process is held, and attempts to count what they use while none ends.
const AT_ONCE: usize = 64;
const TRIES: usize = 4;

/// What changes in a process' life.
pub(crate) struct Life {
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// By number.
    pub(crate) threads: Map<i32, Arc<Thread>>,
    /// Of those, how many have asked for their end, or are to end where another goes on.
    leaving: usize,
    /// The thread that goes on alone, once all others have ended; 0 for none.
    alone: i32,
    /// Threads that have ended.
    ended: u64,
    /// As `wait4` has it, once the process ends.
    pub(crate) status: Option<i32>,
    /// Every thread has ended.
    pub(crate) is_over: bool,
    /// Its parent has been told of that, and may wait for it: never where the parent ignores SIGCHLD.
    pub(crate) is_told: bool,
    /// One thread of its parent has waited for that, and no other does.
    pub(super) is_claimed: bool,
    /// The signal that the parent is told its end by; 0 for none.
    pub(crate) end_signal: i32,
    /// Signals that were sent to a group or to all that it was among.
    pub(crate) sent_to_group: u64,
    /// By ended threads, and by children that were waited for.
    pub(crate) spent: Spent,
    pub(crate) spent_by_children: Spent,
}

impl Life {
    /// Of a process without threads.
    pub(super) fn new([parent, group, session]: [i32; 3], end_signal: i32) -> Self {
        Self {
            parent,
            group,
            session,
            threads: Map::new(),
            leaving: 0,
            alone: 0,
            ended: 0,
            status: None,
            is_over: false,
            is_told: false,
            is_claimed: false,
            end_signal,
            sent_to_group: 0,
            spent: Spent::default(),
            spent_by_children: Spent::default(),
        }
    }

    /// A thread has asked for its end, which its task says. Whether all have.
    pub(crate) fn leave(&mut self, is_over: &AtomicBool) -> bool {
        self.leaving += usize::from(!is_over.swap(true, Ordering::AcqRel));
        self.leaving == self.threads.len()
    }

    /// Gives the only thread another number.
    pub(super) fn rename(&mut self, thread: &Arc<Thread>, number: i32) -> Result<(), NoMemory> {
        let before = thread.number();
        // One takes no memory beside the other.
        self.threads.insert(number, thread.clone())?;
        thread.set_number(number);
        if before != number {
            self.threads.remove(&before);
        }
        Ok(())
    }

    /// A thread has ended, which may have asked for that. Whether it was the last.
    pub(crate) fn end(&mut self, thread: &Thread, has_asked: bool) -> bool {
        self.threads.remove(&thread.number());
        self.leaving -= usize::from(has_asked);
        self.ended += 1;
        self.spent += thread.spent();
        self.threads.is_empty()
    }

    /// A thread goes on alone, unless another was the first to ask for that. Whether it does.
    pub(super) fn go_on_alone(&mut self, thread: &Thread, is_over: bool) -> bool {
        if self.alone == 0 && !is_over {
            self.alone = thread.number();
        }
        self.alone == thread.number()
    }

    /// Whether the thread that goes on alone is the only one.
    pub(super) fn is_alone(&mut self, thread: &Thread) -> bool {
        let is_alone = self.alone == thread.number() && self.threads.len() == 1;
        if is_alone {
            self.alone = 0;
        }
        is_alone
    }

    /// Whether this is the first thread of the parent that waits for the end.
    pub(super) fn claim(&mut self) -> bool {
        !core::mem::replace(&mut self.is_claimed, true)
    }

    /// What its threads have used.
    #[inline(never)]
    pub(super) fn spent_of(life: &Lock<Self>) -> Spent {
        for _ in 1..TRIES {
            if let (spent, true) = Self::try_spent(life) {
                return spent;
            }
        }
        Self::try_spent(life).0
    }

    /// What its threads have used, some of them at once, and whether none has ended meanwhile: that one may be counted twice.
    fn try_spent(life: &Lock<Self>) -> (Spent, bool) {
        let (mut last, mut ended) = (i32::MIN, None);
        let mut sum = Spent::default();
        loop {
            let goes_on = life.with(|life| {
                if ended.is_none() {
                    ended = Some(life.ended);
                    sum += life.spent;
                }
                let mut some = life.threads.at_least(&last);
                for (_, thread) in some.by_ref().take(AT_ONCE) {
                    sum += thread.spent();
                }
                let next = some.next().map(|(number, _)| *number);
                last = next.unwrap_or(last);
                if next.is_some() { None } else { Some(ended == Some(life.ended)) }
            });
            if let Some(is_exact) = goes_on {
                return (sum, is_exact);
            }
        }
    }
}

/// Threads of a process, in order of their numbers: those that there are, and some of those that end meanwhile.
pub(crate) struct Threads<'p> {
    life: &'p Lock<Life>,
    last: i32,
    end: i32,
}

impl<'p> Threads<'p> {
    pub(super) fn of(life: &'p Lock<Life>) -> Self {
        let end = life.with(|life| life.threads.last().map(|(number, _)| *number));
        Self { life, last: i32::MIN, end: end.unwrap_or(i32::MIN) }
    }
}

impl Iterator for Threads<'_> {
    type Item = Arc<Thread>;

    fn next(&mut self) -> Option<Arc<Thread>> {
        self.life.with(|life| {
            let (number, thread) = life.threads.beyond(&self.last).filter(|(number, _)| **number <= self.end)?;
            self.last = *number;
            Some(thread.clone())
        })
    }
}
