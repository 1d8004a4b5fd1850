//! Who runs next: one queue for all CPUs, and those who wait for a time.

use hardware::{per_cpu, timer};
use userspace::Map;

use super::ready::{Found, Ready};
use super::thread::{Leaving, Thread};
use crate::cpus::calls;
use crate::fallible::Arc;
use crate::locks::{Lock, order};

/// Threads that are woken at once when their time has come. The next look, for which a CPU is interrupted at once, wakes others.
const MOST_AT_ONCE: usize = 8;

/// Of so many that are woken, one has all others ahead.
const WAKES: u32 = 4;

struct Queue {
    ready: Ready,
    /// By time, and number.
    sleeping: Map<(u64, i32), Arc<Thread>>,
    /// A bit for each CPU that has nothing to do.
    idle: u32,
    /// A bit for each CPU that dispatches.
    serving: u32,
    threads: usize,
    /// How often a thread was woken.
    wakes: u32,
}

static QUEUE: Lock<Queue> = Lock::new(
    order::QUEUE,
    Queue { ready: Ready::new(), sleeping: Map::new(), idle: 0, serving: 0, threads: 0, wakes: 0 },
);

/// What a CPU that asks for work is told.
pub(crate) enum Next {
    Run(Arc<Thread>),
    /// Threads have other CPUs than when they became ready: another look finds more.
    Again,
    /// Nothing is ready; somebody is due at this time.
    Idle(Option<u64>),
    /// Every CPU is idle and nobody waits for a time: nothing will ever happen again.
    Stuck,
    /// There is no thread any more.
    Done,
}

impl Queue {
    fn push(&mut self, thread: Arc<Thread>) -> bool {
        self.ready.push(thread);
        self.idle & !(1 << per_cpu::index()) != 0
    }

    /// The same of a thread that has waited, or is to end: behind few others, so that it goes on soon however many there are. One of
    /// [`WAKES`] goes behind all, so that those move on too.
    fn push_woken(&mut self, thread: Arc<Thread>) -> bool {
        self.wakes = self.wakes.wrapping_add(1);
        if self.wakes.is_multiple_of(WAKES) {
            return self.push(thread);
        }
        self.ready.push_early(thread);
        self.idle & !(1 << per_cpu::index()) != 0
    }

    fn wake(&mut self, thread: &Arc<Thread>) -> bool {
        match thread.is_parked.replace(false) {
            true => {
                if let Some(deadline) = thread.deadline.take() {
                    self.sleeping.remove(&(deadline, thread.number()));
                }
                self.push_woken(thread.clone())
            }
            false => {
                thread.is_woken.set(true);
                false
            }
        }
    }

    /// Has a parked thread wait for a time, or, without memory for that, look again when others have had their turn.
    fn sleep(&mut self, deadline: u64, thread: Arc<Thread>) -> bool {
        if self.sleeping.insert((deadline, thread.number()), thread.clone()).is_ok() {
            return false;
        }
        thread.is_parked.set(false);
        thread.deadline.set(None);
        self.push(thread)
    }

    fn wake_who_is_due(&mut self) -> bool {
        let now = timer::read_counter();
        let mut calls = false;
        for _ in 0..MOST_AT_ONCE {
            let due = self.sleeping.first().filter(|((time, _), _)| *time <= now);
            let Some(thread) = due.map(|(_, thread)| thread.clone()) else { break };
            calls |= self.wake(&thread);
        }
        calls
    }
}

/// Interrupts the others, if one of them idles and there is work.
fn call(is_needed: bool) {
    if is_needed {
        calls::interrupt_others();
    }
}

/// A new thread is ready.
pub(crate) fn add(thread: Arc<Thread>) {
    call(QUEUE.with(|queue| {
        queue.threads += 1;
        queue.push(thread)
    }));
}

/// Has a thread go on that is parked, or parks next.
pub(crate) fn wake(thread: &Arc<Thread>) {
    call(QUEUE.with(|queue| queue.wake(thread)));
}

/// Wakes those whose time has come.
pub(crate) fn wake_who_is_due() {
    call(QUEUE.with(Queue::wake_who_is_due));
}

/// This CPU dispatches from now on, or no more.
pub(super) fn serve(is_serving: bool) {
    let bit = 1 << per_cpu::index();
    QUEUE.with(|queue| {
        queue.idle &= !bit;
        queue.serving = if is_serving { queue.serving | bit } else { queue.serving & !bit };
    });
}

/// Whether it waits for something.
pub(crate) fn is_parked(thread: &Arc<Thread>) -> bool {
    QUEUE.with(|_| thread.is_parked.get())
}

/// What a thread does, in a word.
pub(crate) fn state(thread: &Thread) -> &'static str {
    QUEUE.with(|_| match (thread.is_parked.get(), thread.deadline.get()) {
        (true, None) => "waits",
        (true, Some(_)) => "sleeps",
        _ if thread.runs() => "runs",
        _ => "is ready",
    })
}

/// Who runs next on this CPU.
pub(super) fn next() -> Next {
    let bit = 1 << per_cpu::index();
    QUEUE.with(|queue| {
        queue.wake_who_is_due();
        queue.idle &= !bit;
        match queue.ready.take(per_cpu::index()) {
            Found::Thread(thread) => return Next::Run(thread),
            Found::Again => return Next::Again,
            Found::Nothing => {}
        }
        if queue.threads == 0 {
            return Next::Done;
        }
        queue.idle |= bit;
        match queue.sleeping.first() {
            Some(((time, _), _)) => Next::Idle(Some(*time)),
            // Whose CPU was called, and has not looked yet, is ready.
            None if queue.idle == queue.serving && queue.ready.is_empty() => Next::Stuck,
            None => Next::Idle(None),
        }
    })
}

/// Takes a thread back that has left its stack. Gives it if it has ended.
pub(super) fn left(thread: Arc<Thread>) -> Option<Arc<Thread>> {
    let (calls, ended) = QUEUE.with(|queue| match thread.leaving.get() {
        Leaving::Ready if thread.owner.is_dying() => (queue.push_woken(thread), None),
        Leaving::Ready => (queue.push(thread), None),
        Leaving::Parked(_) if thread.is_woken.replace(false) => (queue.push(thread), None),
        Leaving::Parked(deadline) => {
            thread.is_parked.set(true);
            thread.deadline.set(deadline);
            (deadline.is_some_and(|deadline| queue.sleep(deadline, thread)), None)
        }
        Leaving::Ended => {
            queue.threads -= 1;
            (queue.threads == 0, Some(thread))
        }
    });
    call(calls);
    ended
}

/// Gives back what the queue has of the heap, once there is no thread any more.
pub(crate) fn forget() {
    drop(QUEUE.with(|queue| core::mem::take(&mut queue.sleeping)));
}

/// Whether somebody waits for a CPU.
pub(crate) fn has_work() -> bool {
    QUEUE.with(|queue| !queue.ready.is_empty())
}
