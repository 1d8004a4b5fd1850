//! Signals: what is done with them, sent, masked, waited for.

use core::sync::atomic::Ordering;

use crate::fallible::Arc;

use super::call::{Call, NO_ANSWER, Row};
use super::time::deadline;
use crate::errno::*;
use crate::process::signals::{Action, Info, SA_KNOWN, SI_TKILL, SIGKILL, SIGSTOP, SS_ONSTACK, Signal};
use crate::process::{alarms, copies, family, numbers, sending, signal_frame, table};
use crate::threads::waiters::{Interrupted, wait};

pub(super) const CALLS: &[Row] = calls![
    (129, "kill", kill),
    (130, "tkill", tkill),
    (131, "tgkill", tgkill),
    (132, "sigaltstack", sigaltstack),
    (133, "rt_sigsuspend", rt_sigsuspend),
    (134, "rt_sigaction", rt_sigaction),
    (135, "rt_sigprocmask", rt_sigprocmask),
    (136, "rt_sigpending", rt_sigpending),
    (137, "rt_sigtimedwait", rt_sigtimedwait),
    (138, "rt_sigqueueinfo", rt_sigqueueinfo),
    (139, "rt_sigreturn", rt_sigreturn),
    (240, "rt_tgsigqueueinfo", rt_tgsigqueueinfo),
];

/// A number that `kill` takes: 0 is no signal, and only asks.
fn signal(number: i32) -> Result<Option<Signal>, Errno> {
    match number {
        0 => Ok(None),
        number => Signal::new(number).map(Some).ok_or(EINVAL),
    }
}

/// Refuses signals to a process that is not one's own.
fn check(call: &Call, process: &table::Process) -> Result<(), Errno> {
    let theirs = process.users.with(|users| users.clone());
    if call.process().users.with(|users| users.may_signal(&theirs)) { Ok(()) } else { Err(EPERM) }
}

fn kill(call: &mut Call, number: i32, which: i32) -> Answer {
    let signal = signal(which)?;
    let own = call.process().number;
    let group = match number {
        number if number > 0 => {
            // A thread's number means its process.
            let of_thread = |_| numbers::find_thread(number).map(|thread| thread.task().process.clone());
            let process = table::find(number).or_else(of_thread)?;
            check(call, &process)?;
            if let Some(signal) = signal {
                process.send(signal, Info::of(0, own));
            }
            return Ok(0);
        }
        0 => call.process().life.with(|life| life.group),
        -1 => -1,
        number => number.checked_neg().ok_or(ESRCH)?,
    };
    let is_meant = |process: &Arc<table::Process>| match group {
        -1 => process.number != table::INIT && process.number != own,
        group => process.life.with(|life| life.group) == group,
    };
    // A child that comes meanwhile is among them, or its parent has been sent the signal before, and forks anew.
    family::FAMILY.with(|()| {
        let mut is_sent = false;
        for process in table::all().filter(is_meant) {
            is_sent = true;
            if let Some(signal) = signal {
                process.life.with(|life| life.sent_to_group += 1);
                process.send(signal, Info::of(0, own));
            }
        }
        if is_sent { Ok(0) } else { Err(ESRCH) }
    })
}

fn send_to_thread(call: &Call, number: i32, which: i32, process: Option<i32>, info: Option<Info>) -> Answer {
    let signal = signal(which)?;
    let thread = numbers::find_thread(number)?;
    if process.is_some_and(|process| thread.task().process.number != process) {
        return Err(ESRCH);
    }
    let Some(signal) = signal else { return Ok(0) };
    let info = info.unwrap_or(Info::of(SI_TKILL, call.process().number));
    sending::send_to(&thread, signal, info).map(|()| 0)
}

/// What a program says of a signal that it sends; what the kernel alone says is for itself.
fn told(call: &Call, process: i32, from: u64) -> Result<Info, Errno> {
    let [_, code, first, second] = copies::read_words(from)?;
    let code = code as i32;
    if (code >= 0 || code == SI_TKILL) && process != call.process().number {
        return Err(EPERM);
    }
    Ok(Info { code, words: [first, second], ..Info::default() })
}

fn rt_sigqueueinfo(call: &mut Call, number: i32, which: i32, from: u64) -> Answer {
    let info = told(call, number, from)?;
    let signal = signal(which)?;
    let process = table::find(number)?;
    if let Some(signal) = signal {
        process.try_send(signal, info)?;
    }
    Ok(0)
}

fn rt_tgsigqueueinfo(call: &mut Call, process: i32, number: i32, which: i32, from: u64) -> Answer {
    if process <= 0 || number <= 0 {
        return Err(EINVAL);
    }
    let info = told(call, process, from)?;
    send_to_thread(call, number, which, Some(process), Some(info))
}

fn tkill(call: &mut Call, number: i32, which: i32) -> Answer {
    if number <= 0 {
        return Err(EINVAL);
    }
    send_to_thread(call, number, which, None, None)
}

fn tgkill(call: &mut Call, process: i32, number: i32, which: i32) -> Answer {
    if process <= 0 || number <= 0 {
        return Err(EINVAL);
    }
    send_to_thread(call, number, which, Some(process), None)
}

fn sigaltstack(call: &mut Call, new: u64, old: u64) -> Answer {
    let task = call.thread.task();
    let (stack, pointer) = (task.signal_stack.get(), call.frame.stack_pointer);
    if new != 0 {
        task.signal_stack.set(stack.replaced_by(copies::read_words(new)?, pointer)?);
    }
    if old != 0 {
        let flags = stack.flags | if stack.holds(pointer) { SS_ONSTACK } else { 0 };
        copies::write_words(old, &[stack.start, flags.into(), stack.bytes])?;
    }
    Ok(0)
}

fn rt_sigaction(call: &mut Call, which: i32, new: u64, old: u64, bytes: u64) -> Answer {
    let signal = Signal::new(which).ok_or(EINVAL)?;
    if bytes != 8 || new != 0 && [SIGKILL, SIGSTOP].contains(&signal) {
        return Err(EINVAL);
    }
    let wanted = match new {
        0 => None,
        _ => {
            let [handler, flags, restorer, mask] = copies::read_words(new)?;
            // What is not known here is not there when a program asks.
            let mask = mask & !(SIGKILL.bit() | SIGSTOP.bit());
            Some(Action { handler, flags: flags & SA_KNOWN, restorer, mask })
        }
    };
    let process = call.process();
    let before = process.actions.with(|actions| {
        let action = &mut actions[signal.index()];
        let before = *action;
        *action = wanted.unwrap_or(before);
        before
    });
    match wanted {
        Some(action) if action.is_ignored(signal) => process.pending.retain(&|one, _| one != signal),
        Some(_) if before.is_ignored(signal) => alarms::tell_again(process.number, signal),
        _ => {}
    }
    if old != 0 {
        copies::write_words(old, &[before.handler, before.flags, before.restorer, before.mask])?;
    }
    Ok(0)
}

fn rt_sigprocmask(call: &mut Call, how: u32, new: u64, old: u64, bytes: u64) -> Answer {
    if bytes != 8 {
        return Err(EINVAL);
    }
    let task = call.thread.task();
    let before = task.mask();
    if new != 0 {
        let [set] = copies::read_words(new)?;
        task.set_mask(match how {
            0 => before | set,
            1 => before & !set,
            2 => set,
            _ => return Err(EINVAL),
        });
    }
    if old != 0 {
        copies::write_words(old, &[before])?;
    }
    Ok(0)
}

fn rt_sigpending(call: &mut Call, to: u64, bytes: u64) -> Answer {
    let task = call.thread.task();
    let pending = (task.pending.set() | task.process.pending.set()) & task.mask();
    let (pending, bytes) = (pending.to_le_bytes(), usize::try_from(bytes).map_err(|_| EINVAL)?);
    copies::write(to, pending.get(..bytes).ok_or(EINVAL)?).map(|()| 0)
}

fn rt_sigsuspend(call: &mut Call, set: u64, bytes: u64) -> Answer {
    if bytes != 8 {
        return Err(EINVAL);
    }
    let [mask] = copies::read_words(set)?;
    let task = call.thread.task();
    task.saved_mask.set(Some(task.mask()));
    task.set_mask(mask);
    let _: Result<(), Interrupted> = wait(&[], None, || None);
    Err(EINTR)
}

fn rt_sigtimedwait(call: &mut Call, set: u64, info: u64, time: u64, bytes: u64) -> Answer {
    if bytes != 8 {
        return Err(EINVAL);
    }
    let [set] = copies::read_words(set)?;
    let set = set & !(SIGKILL.bit() | SIGSTOP.bit());
    let until = if time == 0 { None } else { Some(deadline(time, false)?) };
    let task = call.thread.task();
    let take = || signal_frame::take(task, set);
    // The mask stays: what is ignored is kept if it is masked, and may be waited for.
    task.awaited.store(set, Ordering::Relaxed);
    let found = match take() {
        Some(found) => Ok(found),
        None => {
            let ended: Result<(), Interrupted> = wait(&[], until, || None);
            take().ok_or(if ended == Err(Interrupted::Time) { EAGAIN } else { EINTR })
        }
    };
    task.awaited.store(0, Ordering::Relaxed);
    task.leave_to_others(set & task.mask());
    let (signal, told) = found?;
    if info != 0 {
        copies::write(info, &signal_frame::info_bytes(signal, &told))?;
    }
    Ok(signal.number() as u64)
}

fn rt_sigreturn(call: &mut Call) -> Answer {
    if signal_frame::come_back(call.thread, call.frame).is_err() {
        signal_frame::refuse_return(call.thread, call.frame.stack_pointer);
    }
    Err(NO_ANSWER)
}
