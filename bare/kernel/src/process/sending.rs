//! Signals that are sent, to a process or to one thread.

use crate::fallible::Arc;

use super::errno::Errno;
use super::queued::Charge;
use super::signals::{Info, Pending, SIGKILL, Signal};
use super::table::{INIT, Process, wake};
use super::{resources, stops};
use crate::threads::thread::Thread;

/// Has a signal wait for a process, or for a thread of it. EAGAIN where one that queues has no room by RLIMIT_SIGPENDING or memory.
fn add(process: &Process, pending: &Pending, signal: Signal, info: Info) -> Result<(), Errno> {
    // What the kernel and `kill` say of one that does not queue is known whatever the limit is.
    let is_limited = signal.queues() || info.code < 0;
    let most = if is_limited { process.limits.with(|limits| limits.0[resources::SIGNALS][0]) } else { u64::MAX };
    // A timer has the charge of its signal.
    let charge =
        if info.timer.is_some() { None } else { Charge::new(process.users.with(|users| users.user.real), most) };
    pending.add(signal, info, charge)
}

/// Has a signal that a call or fault of a thread causes wait for that thread.
pub(crate) fn cause(thread: &Thread, signal: Signal, info: Info) {
    let task = thread.task();
    let _ = add(&task.process, &task.pending, signal, info);
}

impl Process {
    /// Sends it a signal of which nothing can be refused, or that nobody asks for again.
    pub(crate) fn send(&self, signal: Signal, info: Info) {
        let _ = self.try_send(signal, info);
    }

    /// Sends it a signal, if it has room for that.
    pub(crate) fn try_send(&self, signal: Signal, info: Info) -> Result<(), Errno> {
        // It ends by the first SIGKILL, for which its threads are awake, however many.
        if self.is_ending() || self.pending.set() & SIGKILL.bit() != 0 {
            return Ok(());
        }
        // What is masked may be waited for, or get a handler before it is taken.
        let is_masked = self.first_thread().is_some_and(|thread| thread.task().mask() & signal.bit() != 0);
        if stops::when_sent(self, signal, is_masked) {
            return Ok(());
        }
        if !is_masked && self.drops(signal) {
            return Ok(());
        }
        add(self, &self.pending, signal, info).inspect(|()| wake(self.threads()))
    }
}

impl Process {
    /// Whether a signal comes to nothing, as it is ignored, or is one that the first process has no handler for.
    fn drops(&self, signal: Signal) -> bool {
        let action = self.actions.with(|actions| actions[signal.index()]);
        action.is_ignored(signal) || self.number == INIT && !action.is_handled()
    }
}

/// Sends one thread a signal, if it has room for that.
pub(crate) fn send_to(thread: &Arc<Thread>, signal: Signal, info: Info) -> Result<(), Errno> {
    let task = thread.task();
    let is_masked = task.mask() & signal.bit() != 0;
    if stops::when_sent(&task.process, signal, is_masked) {
        return Ok(());
    }
    if is_masked || !task.process.drops(signal) {
        add(&task.process, &task.pending, signal, info)?;
        wake([thread.clone()].into_iter());
    }
    Ok(())
}
