//! Timers that come: their signals, those that were missed, timers beside each other, and one whose time was long ago.

use libc::*;
use programs::child::signal_name;
use programs::machine::{dispose, handle};
use programs::timers::*;
use programs::{call, child, tell};

fn main() {
    signals();
    handlers();
    overruns();
    beside();
    ignored();
    long_ago();
}

fn signals() {
    mask(bit(SIGUSR1) | bit(SIGALRM) | bit(40));
    // Those of alarms, too.
    for clock in [CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, 8, 9, 11] {
        let timer = make(clock, &event(0x1234_5678_9abc_def0, SIGUSR1, BY_SIGNAL, 0)).expect("a timer");
        let start = now(clock);
        set(timer, 0, [20 * MILLISECOND, 0]).expect("it is set");
        println!("clock {clock}: armed {}", left(timer).expect("it is there")[0] > 0);
        tell_signal("  from now on", SIGUSR1, 10 * SECOND);
        println!("  not early: {}", now(clock) - start >= 20 * MILLISECOND);
        tell_left("  left", timer);
        tell("  overruns", call(SYS_timer_getoverrun, &[timer]));
        set(timer, ABSOLUTE, [now(clock) + 20 * MILLISECOND, 0]).expect("it is set");
        tell_signal("  a point of time", SIGUSR1, 10 * SECOND);
        set(timer, ABSOLUTE, [1, 0]).expect("it is set");
        tell_signal("  past", SIGUSR1, 10 * SECOND);
        tell_signal("  once", SIGUSR1, 20 * MILLISECOND);
        set(timer, 0, [20 * MILLISECOND, 0]).expect("it is set");
        set(timer, 0, [0, 0]).expect("it is set");
        tell_signal("  never", SIGUSR1, 40 * MILLISECOND);
        delete(timer).expect("it goes");
    }
    let mut timer = 0i32;
    call(SYS_timer_create, &[0, 0, &raw mut timer as u64]).expect("a timer");
    set(timer as u64, 0, [MILLISECOND, 0]).expect("it is set");
    let info = await_signal(SIGALRM, 10 * SECOND).expect("it comes");
    println!("usual: its own number as value {}, {}", info[6] == timer, info[7]);
    let rest = info[8..].iter().all(|half| *half == 0);
    println!("nothing behind: {rest}");
    delete(timer as u64).expect("it goes");
    mask(0);
}

fn handlers() {
    for signal in [SIGALRM, SIGKILL, 40, SIGCHLD] {
        let end = child(|| {
            set(make_for(signal), 0, [10 * MILLISECOND, 0]).expect("it is set");
            sleep_for(100 * MILLISECOND).map_or_else(|error| error.0, |_| 0)
        });
        println!("{}: {end}", signal_name(signal));
    }
    extern "C" fn told(signal: i32, info: &siginfo_t, _: *mut c_void) {
        println!("  {} code {}", signal_name(signal), info.si_code);
    }
    handle(SIGUSR1, told, 0).expect("a handler");
    let timer = make_for(SIGUSR1);
    set(timer, 0, [20 * MILLISECOND, 0]).expect("it is set");
    tell("asleep", sleep_for(10 * SECOND));
    set(timer, 0, [20 * MILLISECOND, 0]).expect("it is set");
    while left(timer).expect("it is there")[0] > 0 {}
    println!("awake");
    delete(timer).expect("it goes");
}

/// Has a timer never come. A signal of it that waits would come later on some kernels, and on others it would not.
fn stop(timer: u64, signal: i32) {
    set(timer, 0, [0, 0]).expect("it is set");
    await_signal(signal, 0).ok();
}

fn overruns() {
    mask(bit(SIGUSR1));
    let timer = make_for(SIGUSR1);
    let overruns = || call(SYS_timer_getoverrun, &[timer]).expect("it is there") as i32;
    let stop = || stop(timer, SIGUSR1);
    set(timer, 0, [MILLISECOND, MILLISECOND]).expect("it is set");
    sleep_for(30 * MILLISECOND).expect("it sleeps");
    println!("before it is taken: {}", overruns());
    let first = tell_signal("taken", SIGUSR1, 0);
    println!("many: {}, told: {}", first >= 20, overruns() == first);
    stop();
    set(timer, 0, [SECOND, 0]).expect("it is set");
    println!("set anew: {}", overruns());
    // From the clock's beginning on there was one each millisecond.
    let before = now(CLOCK_MONOTONIC);
    set(timer, ABSOLUTE, [1, MILLISECOND]).expect("it is set");
    let count = tell_signal("past", SIGUSR1, 10 * SECOND) as u64;
    let range = before / MILLISECOND - 1..=now(CLOCK_MONOTONIC) / MILLISECOND;
    println!("all that were missed: {}", range.contains(&count));
    stop();
    set(timer, 0, [MILLISECOND, 600 * SECOND]).expect("it is set");
    tell_signal("a long period", SIGUSR1, 10 * SECOND);
    tell_left("armed again", timer);
    set(timer, 0, [MILLISECOND, 300 * SECOND]).expect("it is set");
    sleep_for(30 * MILLISECOND).expect("it sleeps");
    tell_left("not taken yet", timer);
    println!("pending: {:#x}", pending());
    tell_signal("taken", SIGUSR1, 0);
    delete(timer).expect("it goes");
    mask(0);
}

/// Several that send the same signal, and others who do.
fn beside() {
    for signal in [SIGUSR1, 40] {
        mask(bit(signal));
        let timers: Vec<_> =
            (1..=3).map(|value| make(CLOCK_MONOTONIC, &event(value, signal, BY_SIGNAL, 0)).expect("a timer")).collect();
        let times = [[30, 0], [10, 0], [20, 0]].map(|times: Times| times.map(|time| time * MILLISECOND));
        timers.iter().zip(times).for_each(|(timer, times)| set(*timer, 0, times).map(drop).expect("it is set"));
        sleep_for(60 * MILLISECOND).expect("it sleeps");
        call(SYS_kill, &[std::process::id().into(), signal as u64]).expect("it is sent");
        for _ in 0..5 {
            let name = format!("{} of several", signal_name(signal));
            tell_signal(&name, signal, 10 * MILLISECOND);
        }
        timers.iter().for_each(|timer| delete(*timer).map(drop).expect("it goes"));
    }
    mask(bit(SIGALRM));
    let timer = make_for(SIGALRM);
    let time = [0u64, 10_000, 0, 10_000];
    call(SYS_setitimer, &[ITIMER_REAL as u64, time.as_ptr() as u64, 0]).expect("it is set");
    set(timer, 0, [30 * MILLISECOND, 0]).expect("it is set");
    sleep_for(60 * MILLISECOND).expect("it sleeps");
    call(SYS_setitimer, &[ITIMER_REAL as u64, [0u64; 4].as_ptr() as u64, 0]).expect("it is set");
    tell_signal("ITIMER_REAL beside", SIGALRM, 0);
    tell_signal("and the other", SIGALRM, 0);
    delete(timer).expect("it goes");
    mask(0);
}

/// A timer whose signal nobody wants goes on, and comes once somebody does.
fn ignored() {
    extern "C" fn quiet(_: i32, _: &siginfo_t, _: *mut c_void) {}
    dispose(SIGUSR2, SIG_IGN).expect("ignored");
    let timers = [make_for(SIGUSR2), make_for(SIGUSR2)];
    set(timers[0], 0, [MILLISECOND, MILLISECOND]).expect("it is set");
    set(timers[1], 0, [MILLISECOND, 0]).expect("it is set");
    sleep_for(30 * MILLISECOND).expect("it sleeps");
    println!("goes on: {}", left(timers[0]).is_ok_and(|[first, _]| (1..=10 * MILLISECOND).contains(&first)));
    tell_left("came once", timers[1]);
    mask(bit(SIGUSR2));
    handle(SIGUSR2, quiet, 0).expect("a handler");
    let overruns = tell_signal("no longer ignored", SIGUSR2, 10 * SECOND);
    println!("as often: {}", overruns >= 20);
    timers.iter().for_each(|timer| delete(*timer).map(drop).expect("it goes"));
    mask(0);
}

/// More periods have passed than can be told.
fn long_ago() {
    mask(bit(SIGUSR1));
    let timer = make_for(SIGUSR1);
    // From here on they are more than 2^31 nanoseconds.
    sleep_for((3 * SECOND).saturating_sub(now(CLOCK_MONOTONIC))).expect("it sleeps");
    set(timer, ABSOLUTE, [1, 1]).expect("it is set");
    println!("the most overruns: {}", tell_signal("long ago", SIGUSR1, 10 * SECOND));
    stop(timer, SIGUSR1);
    delete(timer).expect("it goes");
    mask(0);
}
