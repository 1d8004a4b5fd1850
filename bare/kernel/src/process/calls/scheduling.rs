//! Which CPUs a thread runs on, and classes, priorities and nice values, which are kept for who asks.

use crate::fallible::Arc;
use core::sync::atomic::Ordering;

use super::call::{Call, Row};
use crate::clock::SECOND;
use crate::cpus::walkers;
use crate::process::copies;
use crate::process::errno::*;
use crate::process::resources;
use crate::process::task::Schedule;
use crate::process::{numbers, table};
use crate::threads::dispatcher;
use crate::threads::thread::Thread;

pub(super) const CALLS: &[Row] = calls![
    (118, "sched_setparam", sched_setparam),
    (119, "sched_setscheduler", sched_setscheduler),
    (120, "sched_getscheduler", sched_getscheduler),
    (121, "sched_getparam", sched_getparam),
    (122, "sched_setaffinity", sched_setaffinity),
    (123, "sched_getaffinity", sched_getaffinity),
    (125, "sched_get_priority_max", sched_get_priority_max),
    (126, "sched_get_priority_min", sched_get_priority_min),
    (127, "sched_rr_get_interval", sched_rr_get_interval),
    (140, "setpriority", setpriority),
    (141, "getpriority", getpriority),
];

const SCHED_RR: i32 = 2;
const SCHED_IDLE: i32 = 5;
const SCHED_DEADLINE: i32 = 6;
/// SCHED_RESET_ON_FORK.
const RESET_ON_FORK: i32 = 0x4000_0000;
const LARGEST_PRIORITY: u64 = 99;

/// The thread of a number; 0 is the caller.
fn named(call: &Call, number: i32) -> Result<Arc<Thread>, Errno> {
    match number {
        0 => Ok(call.thread.clone()),
        number => numbers::find_thread(number),
    }
}

/// The same where a negative number makes no sense.
fn found(call: &Call, number: i32) -> Result<Arc<Thread>, Errno> {
    if number < 0 { Err(EINVAL) } else { named(call, number) }
}

fn cpus() -> u64 {
    walkers::running().into()
}

fn sched_getaffinity(call: &mut Call, number: i32, bytes: u32, to: u64) -> Answer {
    if bytes < 8 || !bytes.is_multiple_of(8) {
        return Err(EINVAL);
    }
    let own = u64::from(named(call, number)?.cpus.load(Ordering::Relaxed));
    copies::write_words(to, &[own & cpus()]).map(|()| 8)
}

fn sched_setaffinity(call: &mut Call, number: i32, bytes: u32, from: u64) -> Answer {
    let mut wanted = [0; 8];
    // What is not passed is 0.
    let part = &mut wanted[..bytes.min(8) as usize];
    copies::read(part, from)?;
    let wanted = u64::from_le_bytes(wanted) & cpus();
    let thread = named(call, number)?;
    call.check_owner(&thread)?;
    if wanted == 0 {
        return Err(EINVAL);
    }
    thread.cpus.store(wanted as u32, Ordering::Relaxed);
    if Arc::ptr_eq(&thread, call.thread) {
        dispatcher::leave_wrong_cpu();
    }
    Ok(0)
}

/// SCHED_FIFO and SCHED_RR have priorities; SCHED_OTHER, SCHED_BATCH, SCHED_IDLE and SCHED_DEADLINE have none.
fn priority(policy: i32, of_realtime: u64) -> Answer {
    match policy {
        1 | SCHED_RR => Ok(of_realtime),
        0 | 3 | 5 | SCHED_DEADLINE => Ok(0),
        _ => Err(EINVAL),
    }
}

fn sched_get_priority_max(_: &mut Call, policy: i32) -> Answer {
    priority(policy, LARGEST_PRIORITY)
}

fn sched_get_priority_min(_: &mut Call, policy: i32) -> Answer {
    priority(policy, 1)
}

/// Gives a thread a class, or leaves it the one that it has, and a priority that goes with it.
fn set_class(call: &Call, number: i32, class: Option<i32>, from: u64) -> Answer {
    if from == 0 || number < 0 || class.is_some_and(|class| class < 0) {
        return Err(EINVAL);
    }
    let priority_wanted = copies::read_half(from)?;
    let thread = named(call, number)?;
    let limits = thread.task().process.limits.with(|limits| limits.0);
    let (as_root, as_owner) = (call.check_root(), call.check_owner(&thread));
    thread.task().schedule.with(|schedule| {
        let class = class.unwrap_or(schedule.class);
        let most = priority(class & !RESET_ON_FORK, LARGEST_PRIORITY)?;
        // Of SCHED_DEADLINE this call tells too little.
        let is_known = class & !RESET_ON_FORK != SCHED_DEADLINE;
        if !is_known || u64::from(priority_wanted) > most || (priority_wanted == 0) != (most == 0) {
            return Err(EINVAL);
        }
        let (most, plain) = (limits[resources::PRIORITY][0], class & !RESET_ON_FORK);
        let is_raised = priority_wanted > schedule.priority && u64::from(priority_wanted) > most;
        let is_realtime = priority_wanted > 0 && (is_raised || plain != schedule.class & !RESET_ON_FORK && most == 0);
        let leaves_idle = schedule.class & !RESET_ON_FORK == SCHED_IDLE && plain != SCHED_IDLE;
        let is_by_default = schedule.class & RESET_ON_FORK > class & RESET_ON_FORK;
        if is_realtime || leaves_idle && !is_allowed(&limits, schedule.nice) || is_by_default {
            as_root?;
        }
        as_owner?;
        *schedule = Schedule { class, priority: priority_wanted, ..*schedule };
        Ok(0)
    })
}

fn sched_setparam(call: &mut Call, number: i32, from: u64) -> Answer {
    set_class(call, number, None, from)
}

fn sched_setscheduler(call: &mut Call, number: i32, class: i32, from: u64) -> Answer {
    set_class(call, number, Some(class), from)
}

fn sched_getscheduler(call: &mut Call, number: i32) -> Answer {
    let thread = found(call, number)?;
    Ok(thread.task().schedule.with(|schedule| schedule.class) as u64)
}

fn sched_getparam(call: &mut Call, number: i32, to: u64) -> Answer {
    if to == 0 {
        return Err(EINVAL);
    }
    let thread = found(call, number)?;
    copies::write_half(to, thread.task().schedule.with(|schedule| schedule.priority)).map(|()| 0)
}

fn sched_rr_get_interval(call: &mut Call, number: i32, to: u64) -> Answer {
    let thread = found(call, number)?;
    let nanoseconds = match thread.task().schedule.with(|schedule| schedule.class) & !RESET_ON_FORK {
        1 => 0,
        SCHED_RR => SECOND / 10,
        _ => dispatcher::SLICE * SECOND / 1000,
    };
    copies::write_words(to, &[0, nanoseconds]).map(|()| 0)
}

/// The threads that PRIO_PROCESS, PRIO_PGRP or PRIO_USER means.
fn for_each_meant(call: &Call, which: i32, who: i32, mut each: impl FnMut(&Thread)) -> Result<(), Errno> {
    let own_group = call.process().life.with(|life| life.group);
    let mut is_found = false;
    let mut of_all = |is_meant: &dyn Fn(&table::Process) -> bool| {
        for process in table::all().filter(|process| is_meant(process)) {
            process.threads().for_each(|thread| each(&thread));
            is_found = true;
        }
    };
    match (which, who) {
        (0, _) => {
            each(&*named(call, who)?);
            is_found = true;
        }
        (1, who) => of_all(&|process| process.life.with(|life| life.group) == if who == 0 { own_group } else { who }),
        (2, 0) => of_all(&|_| true),
        (2, _) => {}
        _ => return Err(EINVAL),
    }
    if is_found { Ok(()) } else { Err(ESRCH) }
}

fn setpriority(call: &mut Call, which: i32, who: i32, nice: i32) -> Answer {
    let nice = (nice).clamp(-20, 19);
    let (mut answer, is_root) = (Ok(0), call.check_root().is_ok());
    for_each_meant(call, which, who, |thread| {
        let limits = thread.task().process.limits.with(|limits| limits.0);
        let changed = call.check_owner(thread).and_then(|()| {
            thread.task().schedule.with(|schedule| {
                if nice < schedule.nice && !is_root && !is_allowed(&limits, nice) {
                    return Err(EACCES);
                }
                schedule.nice = nice;
                Ok(())
            })
        });
        if let Err(refused) = changed {
            answer = Err(refused);
        }
    })?;
    answer
}

/// Whether a limit lets a thread be so little nice: from 1 on for 19.
fn is_allowed(limits: &[[u64; 2]], nice: i32) -> bool {
    (20 - nice) as u64 <= limits[resources::NICE][0]
}

/// From 1 on: the least nice.
fn getpriority(call: &mut Call, which: i32, who: i32) -> Answer {
    let mut least = i32::MAX;
    for_each_meant(call, which, who, |thread| {
        least = least.min(thread.task().schedule.with(|schedule| schedule.nice));
    })?;
    Ok((20 - if least == i32::MAX { 0 } else { least }) as u64)
}
