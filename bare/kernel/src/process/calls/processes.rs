//! Processes and threads: begun, replaced, ended, waited for; their groups.

use crate::fallible::Arc;
use alloc::vec::Vec;

use kerncore::stops::News;

use super::call::{Call, NO_ANSWER, Row};
use crate::errno::*;
use crate::facts::page_size;
use crate::fallible::List;
use crate::process::exec::{self, Wanted};
use crate::process::signals::SIGCHLD;
use crate::process::table::{self, Process};
use crate::process::{copies, family};
use crate::threads::dispatcher;
use crate::threads::waiters::wait;

pub(super) const CALLS: &[Row] = calls![
    (93, "exit", exit),
    (94, "exit_group", exit_group),
    (95, "waitid", waitid),
    (124, "sched_yield", sched_yield),
    (154, "setpgid", setpgid),
    (155, "getpgid", getpgid),
    (156, "getsid", getsid),
    (157, "setsid", setsid),
    (172, "getpid", getpid),
    (173, "getppid", getppid),
    (178, "gettid", gettid),
    (221, "execve", execve),
    (260, "wait4", wait4),
];

/// Pages of an argument with its end.
const LONGEST_TEXT: u64 = 32;
/// Leaves EL0 for good: the thread ends when the call has been answered.
fn exit(call: &mut Call, status: i32) -> Answer {
    let (process, status) = (call.process(), (status & 0xff) << 8);
    if process.life.with(|life| life.leave(&call.thread.task().is_over)) {
        process.end(status);
    }
    Ok(0)
}

fn exit_group(call: &mut Call, status: i32) -> Answer {
    call.process().end((status & 0xff) << 8);
    Ok(0)
}

fn sched_yield(_: &mut Call) -> Answer {
    dispatcher::give_way();
    Ok(0)
}

fn getpid(call: &mut Call) -> Answer {
    Ok(call.process().number as u64)
}

fn getppid(call: &mut Call) -> Answer {
    Ok(call.process().parent() as u64)
}

fn gettid(call: &mut Call) -> Answer {
    Ok(call.thread.number() as u64)
}

/// The process of a number; 0 is the own.
fn named(call: &Call, number: i32) -> Result<Arc<Process>, Errno> {
    match number {
        0 => Ok(call.process().clone()),
        number => table::find(number),
    }
}

fn setpgid(call: &mut Call, number: i32, group: i32) -> Answer {
    if (group) < 0 {
        return Err(EINVAL);
    }
    family::FAMILY.with(|()| {
        let process = named(call, number)?;
        if process.number != call.process().number && process.parent() != call.process().number {
            return Err(ESRCH);
        }
        let group = if group == 0 { process.number } else { group };
        let session = process.life.with(|life| life.session);
        let is_there = |one: &Arc<Process>| one.life.with(|life| life.group == group && life.session == session);
        if session == process.number || group != process.number && !table::all().any(|one| is_there(&one)) {
            return Err(EPERM);
        }
        process.life.with(|life| life.group = group);
        Ok(0)
    })
}

fn getpgid(call: &mut Call, number: i32) -> Answer {
    Ok(named(call, number)?.life.with(|life| life.group) as u64)
}

fn getsid(call: &mut Call, number: i32) -> Answer {
    Ok(named(call, number)?.life.with(|life| life.session) as u64)
}

fn setsid(call: &mut Call) -> Answer {
    let process = call.process();
    let number = process.number;
    family::FAMILY.with(|()| {
        if table::all().any(|one| one.life.with(|life| life.group == number)) {
            return Err(EPERM);
        }
        process.life.with(|life| (life.group, life.session) = (number, number));
        Ok(number as u64)
    })
}

fn execve(call: &mut Call, path: u64, arguments: u64, environment: u64) -> Answer {
    let path = copies::read_path(path)?;
    let (longest, room) = ((LONGEST_TEXT << page_size().shift()) as usize, exec::MOST_BYTES as usize);
    let mut arguments = copies::read_texts(arguments, longest, room)?;
    if arguments.is_empty() {
        arguments.try_push(Vec::new())?;
    }
    let environment = copies::read_texts(environment, longest, room)?;
    let folder = call.process().folder();
    exec::run(call.thread, &folder, Wanted { path, arguments, environment }, call.frame)?;
    Err(NO_ANSWER)
}

const WNOHANG: u32 = 1;
const WSTOPPED: u32 = 2;
const WEXITED: u32 = 4;
const WCONTINUED: u32 = 8;
const WNOWAIT: u32 = 0x0100_0000;

const WALL: u32 = 0x4000_0000;
const WCLONE: u32 = 0x8000_0000;

/// A child of which there is something to tell, of those that `is_meant`; ECHILD if there is none at all. Those that tell their end
/// by SIGCHLD and the others are waited for apart, unless all are asked for.
fn wait_for(
    call: &Call,
    options: u32,
    is_meant: impl Fn(&Process) -> bool,
) -> Result<Option<(Arc<Process>, News)>, Errno> {
    let process = call.process();
    let wants = |which: u32| options & which != 0;
    let news = |child: &Process| match child.life.with(|life| life.is_told.then_some(life.status.unwrap_or(0))) {
        Some(status) => (wants(WEXITED) && (wants(WNOWAIT) || child.claim())).then_some(News::Over(status)),
        None => child.stops.news(wants(WSTOPPED), wants(WCONTINUED), wants(WNOWAIT)),
    };
    let is_of_kind = |child: &Process| {
        let is_other = child.life.with(|life| life.end_signal != SIGCHLD.number());
        wants(WALL) || is_other == wants(WCLONE)
    };
    let look = || {
        let mut has_some = false;
        let found = process.telling.with(|()| {
            let is_one = |child: &Arc<Process>| is_meant(child) && is_of_kind(child) && !child.is_claimed();
            let mut children = process.children().filter(is_one);
            children.find_map(|child| {
                has_some = true;
                news(&child).map(|news| (child, news))
            })
        });
        match found {
            Some(found) => Some(Ok(Some(found))),
            None if !has_some => Some(Err(ECHILD)),
            None if wants(WNOHANG) => Some(Ok(None)),
            None => None,
        }
    };
    let found = wait(&[&process.waiters], None, look).map_err(|_| ERESTART)??;
    if let Some((child, News::Over(_))) = found.as_ref().filter(|_| !wants(WNOWAIT)) {
        let mut spent = child.spent();
        spent += child.life.with(|life| life.spent_by_children);
        process.life.with(|life| life.spent_by_children += spent);
        child.forget();
    }
    Ok(found)
}

fn wait4(call: &mut Call, number: i32, status: u64, options: u32, usage: u64) -> Answer {
    const UNDERSTOOD: u32 = 0xe000_000b;
    if options & !UNDERSTOOD != 0 {
        return Err(EINVAL);
    }
    // There is no group of its complement.
    if number == i32::MIN {
        return Err(ESRCH);
    }
    let own_group = call.process().life.with(|life| life.group);
    let is_meant = |child: &Process| match number {
        -1 => true,
        0 => child.life.with(|life| life.group) == own_group,
        number if number > 0 => child.number == number,
        group => child.life.with(|life| life.group) == -group,
    };
    let wanted = options & (WNOHANG | WSTOPPED | WCONTINUED | WALL | WCLONE) | WEXITED;
    let Some((child, news)) = wait_for(call, wanted, is_meant)? else { return Ok(0) };
    if status != 0 {
        copies::write_half(status, news.status() as u32)?;
    }
    if usage != 0 {
        copies::write_words(usage, &super::identity::usage_words(child.spent(), 0))?;
    }
    Ok(child.number as u64)
}

fn waitid(call: &mut Call, kind: u32, number: i32, to: u64, options: u32, usage: u64) -> Answer {
    const UNDERSTOOD: u32 = 0xe100_000f;
    if options & !UNDERSTOOD != 0 || options & (WEXITED | WSTOPPED | WCONTINUED) == 0 {
        return Err(EINVAL);
    }
    let own_group = call.process().life.with(|life| life.group);
    // P_ALL, P_PID, P_PGID, where 0 is the own group.
    let is_meant = |child: &Process| match (kind, number) {
        (0, _) => true,
        (1, number) => child.number == number,
        (_, 0) => child.life.with(|life| life.group) == own_group,
        (_, number) => child.life.with(|life| life.group) == number,
    };
    let least = if kind == 1 { 1 } else { 0 };
    if kind > 2 || kind > 0 && (number) < least {
        return Err(EINVAL);
    }
    let found = wait_for(call, options, is_meant).inspect_err(|_| {
        // The error is told all the same.
        let _ = tell_child(to, [0; 4]);
    })?;
    if let (Some((child, _)), true) = (&found, usage != 0) {
        copies::write_words(usage, &super::identity::usage_words(child.spent(), 0))?;
    }
    let told = found.as_ref().map_or([0; 4], |(child, news)| {
        let (code, value) = news.code();
        [SIGCHLD.number(), code, child.number, value]
    });
    tell_child(to, told).map(|()| 0)
}

/// Writes the fields of `siginfo_t` that there are, and no others: signal, error, code; process, user and status.
fn tell_child(to: u64, [signal, code, number, status]: [i32; 4]) -> Result<(), Errno> {
    if to == 0 {
        return Ok(());
    }
    let halves = |halves: [i32; 3]| halves.map(i32::to_le_bytes);
    copies::write(to, halves([signal, 0, code]).as_flattened())?;
    copies::write(to + 16, halves([number, 0, status]).as_flattened())
}
