//! Timers that a process makes, and their signals: what the programs about them share.

use libc::*;

use crate::child::signal_name;
use crate::errno::{Answer, Errno};
use crate::machine::call;

/// Nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// Nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// SIGEV_SIGNAL.
pub const BY_SIGNAL: i32 = 0;
/// TIMER_ABSTIME.
pub const ABSOLUTE: u64 = 1;

/// Nanoseconds from now or of a clock, and nanoseconds after which again.
pub type Times = [u64; 2];

/// `struct sigevent`.
pub fn event(value: u64, signal: i32, notify: i32, thread: u64) -> [u64; 8] {
    [value, u64::from(signal as u32) | u64::from(notify as u32) << 32, thread, 0, 0, 0, 0, 0]
}

/// Makes a timer; gives its number.
pub fn make(clock: i32, event: &[u64; 8]) -> Answer {
    let mut number = 99i32;
    call(SYS_timer_create, &[clock as u64, event.as_ptr() as u64, &raw mut number as u64])?;
    Ok(number as u64)
}

/// Makes a timer of CLOCK_MONOTONIC that sends a signal with the value 7.
pub fn make_for(signal: i32) -> u64 {
    make(CLOCK_MONOTONIC, &event(7, signal, BY_SIGNAL, 0)).expect("a timer")
}

/// `timer_delete`.
pub fn delete(timer: u64) -> Answer {
    call(SYS_timer_delete, &[timer])
}

/// `struct itimerspec`.
pub fn words([first, period]: Times) -> [u64; 4] {
    [period / SECOND, period % SECOND, first / SECOND, first % SECOND]
}

/// `timer_settime`.
pub fn set(timer: u64, flags: u64, times: Times) -> Answer {
    call(SYS_timer_settime, &[timer, flags, words(times).as_ptr() as u64, 0])
}

/// `timer_gettime`.
pub fn left(timer: u64) -> Result<Times, Errno> {
    let mut words = [0u64; 4];
    call(SYS_timer_gettime, &[timer, words.as_mut_ptr() as u64])?;
    Ok([words[2] * SECOND + words[3], words[0] * SECOND + words[1]])
}

/// What is left, to the second upwards, and the period to the nanosecond.
pub fn tell_left(what: &str, timer: u64) {
    match left(timer) {
        Ok([first, period]) => println!("{what}: {} s, again {period} ns", first.div_ceil(SECOND)),
        Err(error) => println!("{what}: {error}"),
    }
}

/// Nanoseconds of a clock.
pub fn now(clock: i32) -> u64 {
    let mut time = [0u64; 2];
    call(SYS_clock_gettime, &[clock as u64, time.as_mut_ptr() as u64]).expect("a clock");
    time[0] * SECOND + time[1]
}

/// `nanosleep`.
pub fn sleep_for(nanoseconds: u64) -> Answer {
    let time = [nanoseconds / SECOND, nanoseconds % SECOND];
    call(SYS_nanosleep, &[time.as_ptr() as u64, 0])
}

/// The bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Masks these signals, and no others.
pub fn mask(set: u64) {
    call(SYS_rt_sigprocmask, &[SIG_SETMASK as u64, &raw const set as u64, 0, 8]).expect("a mask");
}

/// The signals that wait.
pub fn pending() -> u64 {
    let mut set = 0u64;
    call(SYS_rt_sigpending, &[&raw mut set as u64, 8]).expect("a set");
    set
}

/// Waits for a masked signal: `siginfo_t` in halves.
pub fn await_signal(signal: i32, nanoseconds: u64) -> Result<[i32; 32], Errno> {
    let (set, time) = (bit(signal), [nanoseconds / SECOND, nanoseconds % SECOND]);
    let mut info = [0i32; 32];
    call(SYS_rt_sigtimedwait, &[&raw const set as u64, info.as_mut_ptr() as u64, time.as_ptr() as u64, 8])?;
    Ok(info)
}

/// Waits, and tells what came: of a timer its number and value, and how many overruns if they are none.
pub fn tell_signal(what: &str, signal: i32, nanoseconds: u64) -> i32 {
    let found = await_signal(signal, nanoseconds);
    match found {
        Err(error) => println!("{what}: {error}"),
        Ok(info) if info[2] != SI_TIMER => println!("{what}: {} code {}", signal_name(info[0]), info[2]),
        Ok(info) => {
            let (name, overruns) = (signal_name(info[0]), if info[5] == 0 { "no" } else { "some" });
            println!("{what}: {name} of timer {} value {:#x} {} {overruns} overruns", info[4], info[6], info[7]);
        }
    }
    found.map_or(0, |info| info[5])
}
