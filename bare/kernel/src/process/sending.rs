//! Signals that are sent, to a process or to one thread.

use crate::fallible::Arc;

use super::errno::{EAGAIN, Errno};
use super::signals::{Info, Pending, SIGKILL, Signal};
use super::table::{INIT, Process, wake};
use super::{resources, stops};
use crate::threads::thread::Thread;

impl Process {
    /// Sends it a signal.
    pub(crate) fn send(&self, signal: Signal, info: Info) {
        // It ends by the first SIGKILL, for which its threads are awake, however many.
        if self.is_ending() || self.pending.set() & SIGKILL.bit() != 0 {
            return;
        }
        // What is masked may be waited for, or get a handler before it is taken.
        let is_masked = self.first_thread().is_some_and(|thread| thread.task().mask() & signal.bit() != 0);
        if stops::when_sent(self, signal, is_masked) {
            return;
        }
        if !is_masked && self.drops(signal) {
            return;
        }
        self.pending.add(signal, info);
        wake(self.threads());
    }
}

impl Process {
    /// Whether a signal comes to nothing, as it is ignored, or is one that the first process has no handler for.
    fn drops(&self, signal: Signal) -> bool {
        let action = self.actions.with(|actions| actions[signal.index()]);
        action.is_ignored(signal) || self.number == INIT && !action.is_handled()
    }

    /// Signals that wait for it and its threads.
    pub(crate) fn queued(&self) -> u64 {
        let of_threads = self.threads().map(|thread| thread.task().pending.count()).sum::<usize>();
        (self.pending.count() + of_threads) as u64
    }

    /// Refuses one more of the signals that queue where RLIMIT_SIGPENDING or memory has no room; what `kill` sends needs none.
    pub(crate) fn check_queue(&self, pending: &Pending, signal: Signal, code: i32) -> Result<(), Errno> {
        let most = self.limits.with(|limits| limits.0[resources::SIGNALS][0]);
        let has_room = || self.queued() < most && pending.has_room();
        if signal.queues() && code != 0 && !has_room() { Err(EAGAIN) } else { Ok(()) }
    }
}

/// Sends one thread a signal.
pub(crate) fn send_to(thread: &Arc<Thread>, signal: Signal, info: Info) {
    let task = thread.task();
    let is_masked = task.mask() & signal.bit() != 0;
    if stops::when_sent(&task.process, signal, is_masked) {
        return;
    }
    if is_masked || !task.process.drops(signal) {
        task.pending.add(signal, info);
        wake([thread.clone()].into_iter());
    }
}
