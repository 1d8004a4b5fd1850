//! Timers that send signals: ITIMER_REAL and its kin, and those of `timer_create`.

use core::sync::atomic::Ordering;

use super::call::{Call, Row};
use super::time::{of_running, time};
use crate::clock::SECOND;
use crate::errno::*;
use crate::process::alarms::{self, Clock, Name, Notice, Setting};
use crate::process::copies;
use crate::process::queued::Charge;
use crate::process::resources::SIGNALS;
use crate::process::signals::{SIGALRM, Signal};

pub(super) const CALLS: &[Row] = calls![
    (102, "getitimer", getitimer),
    (103, "setitimer", setitimer),
    (107, "timer_create", timer_create),
    (108, "timer_gettime", timer_gettime),
    (109, "timer_getoverrun", timer_getoverrun),
    (110, "timer_settime", timer_settime),
    (111, "timer_delete", timer_delete),
];

fn write_real(to: u64, left: Option<Setting>) -> Answer {
    const MICROSECOND: u64 = 1000;
    let Setting { first, period } = left.unwrap_or_default();
    // Not 0, which says that there is none.
    let first = if first == 0 { 0 } else { first.max(MICROSECOND) };
    let words = [period / SECOND, period % SECOND / MICROSECOND, first / SECOND, first % SECOND / MICROSECOND];
    copies::write_words(to, &words).map(|()| 0)
}

fn getitimer(call: &mut Call, which: u32, to: u64) -> Answer {
    if which > 2 {
        return Err(EINVAL);
    }
    write_real(to, alarms::get(call.process().number, Name::Interval(which)))
}

fn setitimer(call: &mut Call, which: u32, from: u64, old: u64) -> Answer {
    if which > 2 {
        return Err(EINVAL);
    }
    let [period, period_part, first, first_part] = if from == 0 { [0; 4] } else { copies::read_words(from)? };
    let length = |seconds: u64, part: u64| time([seconds, part.saturating_mul(1000)]);
    let setting = Setting { first: length(first, first_part)?, period: length(period, period_part)? };
    let before = alarms::set(call.process().number, Name::Interval(which), setting, false)?;
    if old == 0 { Ok(0) } else { write_real(old, before) }
}

/// A clock that timers may have.
fn clock(call: &Call, which: i32) -> Result<Clock, Errno> {
    match which {
        0 | 1 | 7..=9 | 11 => Ok(Clock::Monotonic),
        // Clocks that do not interrupt; what a descriptor is of.
        4..=6 => Err(EOPNOTSUPP),
        other if other < 0 && other & 7 == 3 => Err(EOPNOTSUPP),
        other => of_running(call, other).ok_or(EINVAL),
    }
}

/// Whom a timer tells, by `struct sigevent`.
fn notice(call: &Call, event: [u64; 8]) -> Result<Notice, Errno> {
    const NOBODY: u64 = 1;
    const A_THREAD_OF_THE_LIBRARY: u64 = 2;
    const THREAD: u64 = 4;
    let [value, which, thread, ..] = event;
    let (signal, thread) = (Signal::new(which as i32), thread as i32);
    let (signal, thread) = match which >> 32 {
        NOBODY => (None, None),
        0 | A_THREAD_OF_THE_LIBRARY => (Some(signal.ok_or(EINVAL)?), None),
        THREAD if call.process().thread(thread).is_some() => (Some(signal.ok_or(EINVAL)?), Some(thread)),
        _ => return Err(EINVAL),
    };
    Ok(Notice { signal, thread, value })
}

fn timer_create(call: &mut Call, clock: i32, event: u64, to: u64) -> Answer {
    let event = if event == 0 { None } else { Some(copies::read_words(event)?) };
    let clock = self::clock(call, clock)?;
    let process = call.process();
    let most = process.limits.with(|limits| limits.0[SIGNALS][0]);
    let charge = Charge::new(process.users.with(|users| users.user.real), most).ok_or(EAGAIN)?;
    // What is refused from here on has had its number.
    let number = process.next_alarm.fetch_add(1, Ordering::Relaxed) & i32::MAX;
    let notice = match event {
        Some(event) => notice(call, event)?,
        None => Notice { signal: Some(SIGALRM), thread: None, value: number as u64 },
    };
    copies::write_half(to, number as u32)?;
    alarms::make((process.number, number), clock, notice, charge).map_err(|_| EAGAIN)?;
    Ok(0)
}

fn write(to: u64, Setting { first, period }: Setting) -> Answer {
    copies::write_words(to, &[period / SECOND, period % SECOND, first / SECOND, first % SECOND]).map(|()| 0)
}

fn timer_gettime(call: &mut Call, number: i32, to: u64) -> Answer {
    write(to, alarms::get(call.process().number, Name::Made(number)).ok_or(EINVAL)?)
}

fn timer_getoverrun(call: &mut Call, number: i32) -> Answer {
    alarms::overruns(call.process().number, number).ok_or(EINVAL)
}

fn timer_settime(call: &mut Call, number: i32, flags: u32, from: u64, old: u64) -> Answer {
    const ABSOLUTE: u32 = 1;
    if from == 0 {
        return Err(EINVAL);
    }
    let [period, period_part, first, first_part] = copies::read_words(from)?;
    let setting = Setting { first: time([first, first_part])?, period: time([period, period_part])? };
    let before =
        alarms::set(call.process().number, Name::Made(number), setting, flags & ABSOLUTE != 0)?.ok_or(EINVAL)?;
    if old == 0 { Ok(0) } else { write(old, before) }
}

fn timer_delete(call: &mut Call, number: i32) -> Answer {
    if alarms::delete(call.process().number, number) { Ok(0) } else { Err(EINVAL) }
}
