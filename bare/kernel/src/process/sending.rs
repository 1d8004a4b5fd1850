//! Signals that are sent, to a process or to one thread. Nothing of a process that is stopped runs at EL0 until SIGCONT, and its
//! parent is told of both.
//!
//! ```text
//! runs ──stop signal──▶ is stopped ──its last thread has left EL0──▶ told ──SIGCONT──▶ told that it runs
//! ```

use crate::fallible::Arc;
use core::sync::atomic::Ordering;

use kerncore::stops::News;

use super::queued::Charge;
use super::resources;
use super::signals::*;
use super::table::{self, INIT, Process, wake};
use crate::cpus::calls;
use crate::errno::Errno;
use crate::threads::thread::Thread;

pub(super) const STOPS: u64 = SIGSTOP.bit() | SIGTSTP.bit() | SIGTTIN.bit() | SIGTTOU.bit();

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
        if does_all(self, signal, is_masked) {
            return Ok(());
        }
        if !is_masked && self.drops(signal) {
            return Ok(());
        }
        add(self, &self.pending, signal, info).inspect(|()| wake(self.threads()))
    }

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
    if does_all(&task.process, signal, is_masked) {
        return Ok(());
    }
    if is_masked || !task.process.drops(signal) {
        add(&task.process, &task.pending, signal, info)?;
        wake([thread.clone()].into_iter());
    }
    Ok(())
}

/// Does what a signal does as soon as it is sent, whoever takes it. Whether that was all.
fn does_all(process: &Process, signal: Signal, is_masked: bool) -> bool {
    if signal == SIGCONT {
        forget(process, STOPS);
        process.stops.go_on().into_iter().for_each(|news| tell(process, news));
        wake(process.threads());
    } else if signal.bit() & STOPS != 0 {
        forget(process, SIGCONT.bit());
        if !is_masked && process.actions.with(|actions| actions[signal.index()].handler == 0) {
            stop(process, signal);
            return true;
        }
    }
    false
}

fn forget(process: &Process, signals: u64) {
    let stays = |signal: Signal, _: &Info| signal.bit() & signals == 0;
    process.pending.retain(&stays);
    process.threads().for_each(|thread| thread.task().pending.retain(&stays));
}

/// Stops a process, unless there is nobody who could have it go on.
pub(super) fn stop(process: &Process, signal: Signal) {
    let group = process.life.with(|life| life.group);
    let is_in_vain = process.number == INIT || process.is_ending() || signal != SIGSTOP && is_orphaned(group);
    if !is_in_vain && process.stops.stop(signal.number()) {
        calls::interrupt_others();
        tell_once_left(process);
    }
}

/// Tells that a process has stopped, once no thread of it is at EL0.
pub(super) fn tell_once_left(process: &Process) {
    if !process.threads().any(|thread| thread.task().is_at_el0.load(Ordering::SeqCst)) {
        process.stops.tell().into_iter().for_each(|news| tell(process, news));
    }
}

fn tell(process: &Process, news: News) {
    let Ok(parent) = table::find(process.parent()) else { return };
    let action = parent.actions.with(|actions| actions[SIGCHLD.index()]);
    if action.handler != 1 && action.flags & SA_NOCLDSTOP == 0 {
        parent.send(SIGCHLD, Info::of_child(process.number, news));
    }
    parent.waiters.wake_all();
}

/// Whether nobody of a group has a parent in another group of the session, who could have it go on.
fn is_orphaned(group: i32) -> bool {
    !table::all().any(|process| {
        let (own, session, parent) = process.life.with(|life| (life.group, life.session, life.parent));
        let is_one = own == group && parent != INIT && !process.life.with(|life| life.is_over);
        let parent = table::find(parent).ok().filter(|_| is_one);
        parent.is_some_and(|one| one.life.with(|life| life.group != group && life.session == session))
    })
}

/// A process that could have this group go on is over: if it was the last, whoever is stopped is told, and goes on.
pub(super) fn hang_up(group: i32) {
    let is_member = |process: &Arc<Process>| process.life.with(|life| life.group == group && !life.is_over);
    let members = || table::all().filter(is_member);
    if members().any(|process| process.stops.by().is_some()) && is_orphaned(group) {
        for process in members() {
            [SIGHUP, SIGCONT].iter().for_each(|signal| process.send(*signal, Info::of_kernel()));
        }
    }
}
