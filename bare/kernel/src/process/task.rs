//! What of a program belongs to one thread.

use alloc::sync::Arc;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::alarms;
use super::rseq::Sequences;
use super::signals::{Info, Pending, SIGKILL, SIGSTOP, Signal, Stack};
use super::table::Process;

/// A thread's part of its process.
pub(crate) struct Task {
    pub(crate) process: Arc<Process>,
    /// Signals that it does not take now, a bit each from bit 0 for signal 1.
    pub(crate) mask: AtomicU64,
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
}

impl Task {
    pub(crate) fn new(process: &Arc<Process>, mask: u64) -> Self {
        Self {
            process: process.clone(),
            mask: AtomicU64::new(mask),
            pending: Pending::new(),
            is_at_el0: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            signal_stack: Cell::new(Stack::NONE),
            saved_mask: Cell::new(None),
            clear_at_end: Cell::new(0),
            robust_list: Cell::new(0),
            sequences: Sequences::new(),
        }
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

    /// Whether a wait has to end: a signal is to be taken, or the process ends.
    pub(crate) fn is_interrupted(&self) -> bool {
        let pending = self.pending.set() | self.process.pending.set();
        pending & !self.mask() != 0 || self.process.is_ending() || self.is_over()
    }

    /// Whether its thread ends, though its process may not.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}
