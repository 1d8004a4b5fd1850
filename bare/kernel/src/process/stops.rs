//! Stop signals: nothing of a process that is stopped runs at EL0 until SIGCONT, and its parent is told of both.
//!
//! ```text
//! runs ──stop signal──▶ is stopped ──its last thread has left EL0──▶ told ──SIGCONT──▶ told that it runs
//! ```

use core::sync::atomic::Ordering;

use kerncore::stops::News;

use super::signals::{Info, SA_NOCLDSTOP, SIGCHLD, SIGCONT, SIGHUP, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, Signal};
use super::table::{self, INIT, Process};
use crate::fallible::Arc;

pub(super) const STOPS: u64 = SIGSTOP.bit() | SIGTSTP.bit() | SIGTTIN.bit() | SIGTTOU.bit();

/// What a signal does as soon as it is sent, whoever takes it. Whether that was all.
pub(super) fn when_sent(process: &Process, signal: Signal, is_masked: bool) -> bool {
    if signal == SIGCONT {
        forget(process, STOPS);
        if let Some(news) = process.stops.go_on() {
            tell(process, news);
        }
        table::wake(process.threads());
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
        crate::cpus::calls::interrupt_others();
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
