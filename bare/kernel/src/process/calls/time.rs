//! Calls about clocks and timers.

use hardware::timer;

use super::call::{Call, Row};
use crate::clock::{LONGEST, SECOND, monotonic_nanoseconds, nanoseconds, ticks};
use crate::errno::*;
use crate::process::alarms::Clock;
use crate::process::copies;
use crate::threads::waiters::{Interrupted, wait};

pub(super) const CALLS: &[Row] = calls![
    (101, "nanosleep", nanosleep),
    (113, "clock_gettime", clock_gettime),
    (114, "clock_getres", clock_getres),
    (115, "clock_nanosleep", clock_nanosleep),
    (153, "times", times),
    (169, "gettimeofday", gettimeofday),
];

/// Nanoseconds of a time, as programs pass them.
pub(super) fn time(words: [u64; 2]) -> Result<u64, Errno> {
    let [seconds, nanoseconds] = words;
    if seconds > i64::MAX as u64 || nanoseconds >= SECOND {
        return Err(EINVAL);
    }
    Ok(seconds.saturating_mul(SECOND).saturating_add(nanoseconds).min(LONGEST))
}

/// Reads a time, and says when the counter comes to it: a length from now on, or a point of the clock.
pub(super) fn deadline(from: u64, is_absolute: bool) -> Result<u64, Errno> {
    let wanted = ticks(time(copies::read_words(from)?)?);
    Ok(if is_absolute { wanted } else { timer::read_counter().saturating_add(wanted) })
}

pub(super) fn write_time(to: u64, nanoseconds: u64) -> Answer {
    copies::write_words(to, &[nanoseconds / SECOND, nanoseconds % SECOND]).map(|()| 0)
}

/// A clock of what a process or thread has run: its own, or one that is named by its number's complement and three bits.
pub(super) fn of_running(call: &Call, which: i32) -> Option<Clock> {
    const OF_A_THREAD: i32 = 4;
    let (own, thread) = (call.process().number, call.thread.number());
    match which {
        2 => Some(Clock::Process(own)),
        3 => Some(Clock::Thread(thread)),
        0.. => None,
        _ if which & 3 == 3 => None,
        _ if which & OF_A_THREAD == 0 => {
            let number = !(which >> 3);
            Some(Clock::Process(if number == 0 { own } else { number }))
        }
        _ => match !(which >> 3) {
            0 => Some(Clock::Thread(thread)),
            number => call.process().thread(number).map(|_| Clock::Thread(number)),
        },
    }
    .filter(|clock| clock.now().is_some())
}

fn clock(call: &Call, clock: i32) -> Result<u64, Errno> {
    match clock {
        // A machine that sleeps wakes for those of alarms, 8 and 9: this one does not sleep.
        0 | 1 | 4..=9 | 11 => Ok(monotonic_nanoseconds()),
        other => of_running(call, other).and_then(Clock::now).ok_or(EINVAL),
    }
}

fn clock_gettime(call: &mut Call, which: i32, to: u64) -> Answer {
    write_time(to, clock(call, which)?)
}

fn clock_getres(call: &mut Call, which: i32, to: u64) -> Answer {
    clock(call, which)?;
    // CLOCK_REALTIME_COARSE and CLOCK_MONOTONIC_COARSE go by Linux's ticks, of which a second has 250.
    let nanoseconds = if matches!(which, 5 | 6) { SECOND / 250 } else { 1 };
    if to == 0 { Ok(0) } else { write_time(to, nanoseconds) }
}

fn gettimeofday(_: &mut Call, to: u64, zone: u64) -> Answer {
    let now = monotonic_nanoseconds();
    if to != 0 {
        copies::write_words(to, &[now / SECOND, now % SECOND / 1000])?;
    }
    if zone != 0 {
        copies::write_words(zone, &[0])?;
    }
    Ok(0)
}

fn sleep(until: u64, rest: u64) -> Answer {
    match wait(&[], Some(until), || None::<()>) {
        Err(Interrupted::Signal) => {
            if rest != 0 {
                write_time(rest, nanoseconds(until.saturating_sub(timer::read_counter())))?;
            }
            Err(EINTR)
        }
        _ => Ok(0),
    }
}

fn nanosleep(_: &mut Call, from: u64, rest: u64) -> Answer {
    sleep(deadline(from, false)?, rest)
}

fn clock_nanosleep(_: &mut Call, which: i32, flags: u32, from: u64, rest: u64) -> Answer {
    const ABSOLUTE: u32 = 1;
    // CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, those of alarms, CLOCK_TAI.
    if ![0, 1, 7, 8, 9, 11].contains(&which) {
        return Err(if which < 10 { EOPNOTSUPP } else { EINVAL });
    }
    let is_absolute = flags & ABSOLUTE != 0;
    sleep(deadline(from, is_absolute)?, if is_absolute { 0 } else { rest })
}

fn times(call: &mut Call, to: u64) -> Answer {
    const HUNDREDTH: u64 = SECOND / 100;
    if to != 0 {
        let children = nanoseconds(call.process().life.with(|life| life.spent_by_children.ticks));
        copies::write_words(to, &[call.process().nanoseconds() / HUNDREDTH, 0, children / HUNDREDTH, 0])?;
    }
    Ok(monotonic_nanoseconds() / HUNDREDTH)
}
