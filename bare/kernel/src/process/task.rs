//! What of a program belongs to one thread.

use crate::fallible::Arc;
use crate::locks::{Lock, order};
use alloc::string::String;
use core::any::Any;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::sequences::Sequences;
use super::signals::{Pending, SIGKILL, SIGSTOP, Stack};
use super::stacks::Stack as KernelStack;
use super::table::{self, Process};
use crate::threads::thread::Thread;

/// Threads of a process that are looked at for who takes a signal, interrupts masked.
const LOOKED_AT: usize = 64;

/// A thread's part of its process.
pub(crate) struct Task {
    pub(crate) process: Arc<Process>,
    /// Signals that it does not take now, a bit each from bit 0 for signal 1.
    pub(crate) mask: AtomicU64,
    /// Signals that it waits for, masked or not: they end the wait, and are kept for it as masked ones are.
    pub(crate) awaited: AtomicU64,
    pub(crate) pending: Pending,
    /// What it is called, unless it is its process' first.
    pub(crate) name: Lock<String>,
    /// It is at EL0, or about to be.
    pub(crate) is_at_el0: AtomicBool,
    /// It has asked for its end, or another thread goes on without it.
    pub(crate) is_over: AtomicBool,
    /// Its own, from here on: touched by itself alone.
    pub(crate) signal_stack: Cell<Stack>,
    /// What frames of signals tell of its last fault: the address, and ESR_EL1, which is 0 for none.
    pub(crate) fault: Cell<[u64; 2]>,
    /// The mask that comes back once a signal that was waited for has been handled.
    pub(crate) saved_mask: Cell<Option<u64>>,
    /// Where a zero goes, and who waits for it, when the thread ends; 0 for nowhere.
    pub(crate) clear_at_end: Cell<u64>,
    /// The list of mutexes that die with their owner; 0 for none. Others may ask for it.
    pub(crate) robust_list: AtomicU64,
    pub(crate) sequences: Sequences,
    /// Which allocation of its next calls fails: what `failing` counts while a call is made; 0 for none.
    pub(crate) fails: Cell<u32>,
    pub(super) stack: Cell<Option<KernelStack>>,
}

impl Task {
    pub(crate) fn new(process: &Arc<Process>, mask: u64) -> Self {
        Self {
            process: process.clone(),
            mask: AtomicU64::new(mask),
            awaited: AtomicU64::new(0),
            pending: Pending::new(),
            name: Lock::new(order::NAME, String::new()),
            is_at_el0: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            signal_stack: Cell::new(Stack::NONE),
            fault: Cell::new([0; 2]),
            saved_mask: Cell::new(None),
            clear_at_end: Cell::new(0),
            robust_list: AtomicU64::new(0),
            sequences: Sequences::new(),
            fails: Cell::new(0),
            stack: Cell::new(None),
        }
    }

    /// Whether its thread ends, though its process may not.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Whether SIGKILL waits for it.
    pub(crate) fn is_killed(&self) -> bool {
        (self.pending.set() | self.process.pending.set()) & SIGKILL.bit() != 0
    }

    pub(crate) fn mask(&self) -> u64 {
        self.mask.load(Ordering::Relaxed)
    }

    /// Sets the mask, but for what nobody can mask.
    pub(crate) fn set_mask(&self, mask: u64) {
        let before = self.mask.swap(mask & !(SIGKILL.bit() | SIGSTOP.bit()), Ordering::Relaxed);
        self.leave_to_others(mask & !before);
    }

    /// Signals that it does not take any more are for other threads, if they wait already.
    pub(crate) fn leave_to_others(&self, signals: u64) {
        if self.process.pending.set() & signals != 0 {
            table::wake(self.process.threads());
        }
    }

    /// Signals that it would take now.
    pub(super) fn open(&self) -> u64 {
        !self.mask() | self.awaited.load(Ordering::Relaxed)
    }

    /// Whether one of these signals, sent to its process, is for this thread: each is for the first that does not mask it, or, where none of
    /// the first [`LOOKED_AT`] takes it, for any.
    #[inline(never)]
    pub(super) fn takes_one_of(&self, signals: u64) -> bool {
        let open_before = self.process.life.with(|life| {
            let tasks = life.threads.iter().take(LOOKED_AT).map(|(_, thread)| thread.task());
            let before = tasks.take_while(|one| !core::ptr::eq(*one, self));
            before.filter(|one| !one.is_over()).fold(0, |open, one| open | one.open())
        });
        signals & SIGKILL.bit() != 0 || signals & !open_before != 0
    }
}

impl Drop for Task {
    /// A thread that never came to be gives its stack back here.
    fn drop(&mut self) {
        if let Some(stack) = self.stack.take() {
            stack.give();
        }
    }
}

impl Thread {
    /// What of a program belongs to it.
    #[inline(never)]
    pub(crate) fn task(&self) -> &Task {
        let owner: &dyn Any = &*self.owner;
        owner.downcast_ref().expect("`Task::thread` alone makes threads")
    }
}
