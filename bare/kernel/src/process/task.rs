//! What of a program belongs to one thread.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hardware::user::Simd;

use super::rseq::Sequences;
use super::signals::{Info, Pending, SIGKILL, SIGSTOP, Signal, Stack};
use super::stacks::Stack as KernelStack;
use super::table::Process;
use super::{alarms, space, stops};
use crate::threads::dispatcher::{self, interrupts_open};
use crate::threads::thread::{Body, Owner, Thread};

/// A thread's part of its process.
pub(crate) struct Task {
    pub(crate) process: Arc<Process>,
    /// Signals that it does not take now, a bit each from bit 0 for signal 1.
    pub(crate) mask: AtomicU64,
    /// Signals that it waits for, masked or not: they end the wait, and are kept for it as masked ones are.
    pub(crate) awaited: AtomicU64,
    pub(crate) pending: Pending,
    /// It is at EL0, or about to be.
    pub(crate) is_at_el0: AtomicBool,
    /// It has asked for its end, or another thread goes on without it.
    pub(crate) is_over: AtomicBool,
    /// Its own, from here on: touched by itself alone.
    pub(crate) signal_stack: Cell<Stack>,
    /// The mask that comes back once a signal that was waited for has been handled.
    pub(crate) saved_mask: Cell<Option<u64>>,
    /// Where a zero goes, and who waits for it, when the thread ends; 0 for nowhere.
    pub(crate) clear_at_end: Cell<u64>,
    /// The list of mutexes that die with their owner; 0 for none.
    pub(crate) robust_list: Cell<u64>,
    pub(crate) sequences: Sequences,
    stack: Cell<Option<KernelStack>>,
}

impl Task {
    pub(crate) fn new(process: &Arc<Process>, mask: u64) -> Self {
        Self {
            process: process.clone(),
            mask: AtomicU64::new(mask),
            awaited: AtomicU64::new(0),
            pending: Pending::new(),
            is_at_el0: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            signal_stack: Cell::new(Stack::NONE),
            saved_mask: Cell::new(None),
            clear_at_end: Cell::new(0),
            robust_list: Cell::new(0),
            sequences: Sequences::new(),
            stack: Cell::new(None),
        }
    }

    /// A thread for it, which does not run yet; none if there is no memory for its stack.
    pub(crate) fn thread(mut self, number: i32, simd: Simd, thread_pointer: u64, body: Body) -> Option<Arc<Thread>> {
        let stack = KernelStack::take()?;
        let end = stack.end();
        self.stack = Cell::new(Some(stack));
        // SAFETY: the stack is its own until `end`.
        Some(unsafe { Thread::new(number, Box::new(self), end, dispatcher::begin, simd, thread_pointer, body) })
    }

    /// Whether its thread ends, though its process may not.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn mask(&self) -> u64 {
        self.mask.load(Ordering::Relaxed)
    }

    /// Sets the mask, but for what nobody can mask.
    pub(crate) fn set_mask(&self, mask: u64) {
        self.mask.store(mask & !(SIGKILL.bit() | SIGSTOP.bit()), Ordering::Relaxed);
    }

    /// Takes one of the signals of `set`, its own or its process'. An alarm counts on from here.
    pub(crate) fn take(&self, set: u64) -> Option<(Signal, Info)> {
        loop {
            let (signal, info) = self.pending.take(set).or_else(|| self.process.pending.take(set))?;
            let Some(sequence) = info.timer else { return Some((signal, info)) };
            let [number, value] = info.words;
            if let Some(overruns) = alarms::take(self.process.number, number as i32, sequence) {
                return Some((signal, Info { words: [number | overruns << 32, value], ..info }));
            }
        }
    }
}

impl Owner for Task {
    fn is_interrupted(&self) -> bool {
        let pending = self.pending.set() | self.process.pending.set();
        let open = !self.mask() | self.awaited.load(Ordering::Relaxed);
        pending & open != 0 || self.process.is_ending() || self.is_over()
    }

    fn is_held(&self) -> bool {
        if self.process.stops.by().is_none() || self.process.is_ending() || self.is_over() {
            return false;
        }
        stops::tell_once_left(&self.process);
        (self.pending.set() | self.process.pending.set()) & SIGKILL.bit() == 0
    }

    fn enter(&self) {
        if let Some(before) = space::enter(self.process.space()) {
            interrupts_open(|| drop(before));
        }
    }

    fn leave(&self) {
        self.sequences.note_leaving();
    }

    fn end(&self) {
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
