//! The end of threads and processes, and who is told.

use crate::fallible::Arc;
use core::sync::atomic::Ordering;

use kerncore::stops::News;
use spin::Once;

use super::futex::Place;
use super::signals::{Info, SA_NOCLDWAIT, SIGCHLD, SIGKILL, Signal};
use super::table::{self, INIT, Process};
use super::{alarms, copies, family, futex, numbers, ownership, pressure, sending, space};
use crate::errno::Errno;
use crate::threads::dispatcher;
use crate::threads::thread::{Thread, current};

/// Mutexes of a list that are looked at: a program may have made it a circle.
const MOST_MUTEXES: usize = 2048;
/// Seconds that processes may take to end once the first has, from one to the next.
const PATIENCE: u64 = 30;
/// What the first process ended with.
static STATUS: Once<i32> = Once::new();

/// What the first process ended with, as `wait4` has it, if it has.
pub(crate) fn status() -> Option<i32> {
    STATUS.get().copied()
}

/// The thread that runs is at its end, and its process if it is the last.
pub(super) fn end_thread() {
    let thread = current();
    let process = thread.task().process.clone();
    leave_mutexes(&thread);
    let address = thread.task().clear_at_end.get();
    if address != 0 && copies::write_half(address, 0).is_ok() {
        futex::wake(&process, Place { address, is_shared: true }, 1, u32::MAX);
    }
    let is_last = process.life.with(|life| life.end(&thread, thread.task().is_over()));
    numbers::leave_thread(thread.number());
    ownership::leave(&thread);
    if is_last {
        end_process(&process);
    } else {
        // What it was to take is for another.
        thread.task().leave_to_others(u64::MAX);
    }
    thread.task().pending.retain(&|_, _| false);
    // Who waits for the other threads of a process: `exec`.
    process.waiters.wake_all();
}

/// Marks the mutexes that a thread dies with.
fn leave_mutexes(thread: &Arc<Thread>) {
    let head = thread.task().robust_list.load(Ordering::Relaxed);
    if head == 0 {
        return;
    }
    let Ok([mut next, offset, pending]) = copies::read_words(head) else { return };
    for _ in 0..MOST_MUTEXES {
        if next & !1 == head {
            break;
        }
        let entry = next & !1;
        let Ok([after]) = copies::read_words(entry) else { return };
        if entry != pending & !1 && leave_mutex(thread, entry.wrapping_add(offset)).is_err() {
            return;
        }
        next = after;
    }
    if pending & !1 != 0 {
        // It was the last.
        let _ = leave_mutex(thread, (pending & !1).wrapping_add(offset));
    }
}

/// Marks one, wherever the program says that it is.
fn leave_mutex(thread: &Arc<Thread>, address: u64) -> Result<(), Errno> {
    let is_own = |word: u32| word & futex::OWNER == thread.number() as u32;
    // Who comes to wait meanwhile is seen, or finds that the owner has died.
    let word =
        copies::change_half(address, |word| is_own(word).then_some(word & futex::HAS_WAITERS | futex::OWNER_DIED))?;
    if is_own(word) && word & futex::HAS_WAITERS != 0 {
        futex::wake(&thread.task().process, Place { address, is_shared: true }, 1, u32::MAX);
    }
    Ok(())
}

fn end_process(process: &Arc<Process>) {
    let status = process.life.with(|life| *life.status.get_or_insert(0));
    process.files.let_go();
    // Nor does this CPU translate by it: who waits for the process finds that its pages are nobody's.
    let space = process.space.with(Option::take);
    drop(space::leave());
    // Here and not where the last CPU forgets it: others have their turn meanwhile.
    if let Some(space) = space.filter(|space| !table::all().any(|other| other.has_space(space))) {
        space.clear();
    }
    pressure::tell();
    process.image.with(|image| image.file = None);
    alarms::delete_all(process.number, false);
    process.is_borrowing.store(false, Ordering::Release);
    family::FAMILY.with(|()| leave_family(process, status));
}

/// Gives children to others, and tells the parent.
fn leave_family(process: &Arc<Process>, status: i32) {
    let (own, session) = process.life.with(|life| (life.group, life.session));
    let parent = table::find(process.parent()).map(|parent| parent.life.with(|life| (life.group, life.session)));
    // Those whose members this process could have go on, and its own, if its parent could.
    let own_group = parent.ok().filter(|parent| parent.0 != own && parent.1 == session).map(|_| own);
    process.life.with(|life| life.is_over = true);
    let reaper = process.reaper();
    for child in process.children() {
        let other = child.life.with(|life| {
            (life.parent, life.end_signal) = (reaper, SIGCHLD.number());
            (life.group != own && life.session == session).then_some(life.group)
        });
        if let Some(signal) = Signal::new(child.death_signal.load(Ordering::Relaxed) as i32) {
            child.send(signal, Info::of(0, process.number));
        }
        if child.life.with(|life| life.is_over) {
            tell_parent(&child, 0);
        }
        // With the last child of a group all that counts has changed.
        other.into_iter().for_each(sending::hang_up);
    }
    own_group.into_iter().for_each(sending::hang_up);
    if process.number == INIT || STATUS.get().is_some() {
        dispatcher::expect_end(PATIENCE);
    }
    if process.number == INIT {
        STATUS.call_once(|| status);
        // As a machine without its first process: all end.
        table::all().filter(|other| other.number != INIT).for_each(|other| {
            other.end(SIGKILL.number());
        });
        process.forget();
    } else {
        tell_parent(process, status);
    }
}

/// Tells the parent, which may be gone, of the end of a child.
fn tell_parent(process: &Arc<Process>, status: i32) {
    let (parent, signal) = process.life.with(|life| (life.parent, life.end_signal));
    let Some(parent) = table::find(parent).ok().filter(|parent| !parent.life.with(|life| life.is_over)) else {
        return process.forget();
    };
    let action = parent.actions.with(|actions| actions[SIGCHLD.index()]);
    let is_unwaited = signal == SIGCHLD.number() && (action.handler == 1 || action.flags & SA_NOCLDWAIT != 0);
    // Whoever waits finds both, or neither: the signal, and the child.
    parent.telling.with(|()| {
        process.life.with(|life| life.is_told = !is_unwaited);
        // Who ignores it is sent none, be it that the signal is masked.
        let is_ignored = signal == SIGCHLD.number() && action.handler == 1;
        if let Some(signal) = Signal::new(signal).filter(|_| !is_ignored) {
            parent.send(signal, Info::of_child(process.number, News::Over(status)));
        }
    });
    if is_unwaited {
        process.forget();
    }
    parent.waiters.wake_all();
}
