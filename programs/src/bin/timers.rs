//! Timers that a process makes: their clocks, whom they tell, what is left of their time, and what is refused.

use libc::*;
use programs::child::{NOBODY, ended, wait};
use programs::machine::{exit, fork};
use programs::memory::pages;
use programs::timers::*;
use programs::{call, in_child, page, tell};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::{env, thread};

fn main() {
    if let Some(what) = env::args().nth(1) {
        return after_exec(&what);
    }
    clocks();
    events();
    refusals();
    untold();
    threads();
    children();
    limits();
    exec();
}

fn clocks() {
    for clock in [0, 1, 2, 3, -6, -2, -8, 4, 5, 6, 7, 10, 11, 12, 100, -5, i32::MAX] {
        let made = make(clock, &event(0, 0, NONE, 0));
        tell(&format!("clock {clock}"), made);
        if let Ok(timer) = made {
            tell("  is deleted", delete(timer));
        }
    }
}

fn events() {
    let own = call(SYS_gettid, &[]).expect("a number");
    for notify in [0, 1, 2, 3, 4, 5, 6, 8, -1] {
        tell(&format!("notify {notify}"), make(0, &event(0, SIGUSR1, notify, own)));
    }
    for signal in [0, 1, SIGKILL, 64, 65, -1] {
        tell(&format!("signal {signal}"), make(0, &event(0, signal, BY_SIGNAL, 0)));
        tell(&format!("signal {signal} of nobody"), make(0, &event(0, signal, NONE, 0)));
    }
    for (name, thread) in [("nobody", NOBODY), ("another process", 1), ("0", 0), ("-1", u64::MAX)] {
        tell(&format!("a thread: {name}"), make(0, &event(0, SIGUSR1, TO_THREAD, thread)));
    }
    let (here, mut number) = (event(0, SIGUSR1, 0, 0), 0i32);
    let create = |clock: u64, event: u64, to: u64| call(SYS_timer_create, &[clock, event, to]);
    let memory = pages(2);
    call(SYS_munmap, &[memory + page(), page()]).expect("it goes");
    tell("an event half there", create(0, memory + page() - 32, &raw mut number as u64));
    tell("nowhere, and no clock", create(100, 8, &raw mut number as u64));
    tell("no event, and no clock", create(100, event(0, 0, 9, 0).as_ptr() as u64, &raw mut number as u64));
    tell("a number to nowhere", create(0, here.as_ptr() as u64, 8));
    tell("usual", create(0, 0, &raw mut number as u64));
    println!("the next number: {number}");
    println!("deleted: {}", (0..=number as u64).filter(|timer| delete(*timer).is_ok()).count());
    tell("deleted again", delete(number as u64));
}

fn refusals() {
    let (timer, good) = (make(CLOCK_MONOTONIC, &event(0, 0, NONE, 0)).expect("a timer"), words([SECOND, 0]));
    for (name, place, value) in [
        ("a second of nanoseconds", 3, SECOND),
        ("less than none", 3, u64::MAX),
        ("a time that was", 2, u64::MAX),
        ("such a period", 1, SECOND),
        ("a period that was", 0, u64::MAX),
    ] {
        let mut words = good;
        words[place] = value;
        tell(name, call(SYS_timer_settime, &[timer, 0, words.as_ptr() as u64, 0]));
        words[2] = 0;
        tell("  never", call(SYS_timer_settime, &[timer, 0, words.as_ptr() as u64, 0]));
    }
    let nothing = 99;
    tell("no times", call(SYS_timer_settime, &[timer, 0, 0, 0]));
    tell("from nowhere", call(SYS_timer_settime, &[timer, 0, 8, 0]));
    tell("no times, no timer", call(SYS_timer_settime, &[nothing, 0, 0, 0]));
    tell("from nowhere, no timer", call(SYS_timer_settime, &[nothing, 0, 8, 0]));
    tell("no timer", set(nothing, 0, [SECOND, 0]));
    tell("less than no timer", set(u64::MAX, 0, [SECOND, 0]));
    tell("what is left of it", left(nothing).map(|_| 0));
    tell("overruns of it", call(SYS_timer_getoverrun, &[nothing]));
    tell("is deleted", delete(nothing));
    tell("to nowhere", call(SYS_timer_gettime, &[timer, 8]));
    tell("what was, to nowhere", call(SYS_timer_settime, &[timer, 0, words([9 * SECOND, 0]).as_ptr() as u64, 8]));
    tell_left("was set", timer);
    tell("unknown flags", set(timer, 1 << 20 | 2, [5 * SECOND, 0]));
    tell_left("was set", timer);
    delete(timer).expect("it goes");
}

/// Timers that tell nobody.
fn untold() {
    let timer = make(CLOCK_BOOTTIME, &event(0, 0, NONE, 0)).expect("a timer");
    tell_left("never set", timer);
    let mut old = [0u64; 4];
    set(timer, 0, [100 * SECOND, 7 * SECOND + 1]).expect("it is set");
    tell_left("a hundred seconds", timer);
    let longest = [i64::MAX as u64, 0, i64::MAX as u64, 999_999_999];
    tell("set anew", call(SYS_timer_settime, &[timer, 0, longest.as_ptr() as u64, old.as_mut_ptr() as u64]));
    println!("it was {old:?}", old = [old[0], old[1], old[2] + u64::from(old[3] > 0)]);
    println!("the longest period: {}", left(timer).expect("it is there")[1]);
    tell("past", set(timer, ABSOLUTE, [1, 0]));
    tell_left("is over", timer);
    tell("past, with a period", set(timer, ABSOLUTE, [1, 1000 * SECOND]));
    println!("within the period: {}", (1..=1000 * SECOND).contains(&left(timer).expect("it is there")[0]));
    tell("a point of time", set(timer, ABSOLUTE, [now(CLOCK_BOOTTIME) + 50 * SECOND, 0]));
    tell_left("fifty seconds", timer);
    tell("overruns", call(SYS_timer_getoverrun, &[timer]));
    tell("never", set(timer, 0, [0, 5]));
    println!("no period: {}", left(timer).expect("it is there")[1]);
    delete(timer).expect("it goes");
}

fn threads() {
    mask(bit(SIGUSR1));
    let other = || {
        let own = call(SYS_gettid, &[]).expect("a number");
        let timer = make(CLOCK_MONOTONIC, &event(5, SIGUSR1, TO_THREAD, own)).expect("a timer");
        set(timer, 0, [10 * MILLISECOND, 0]).expect("it is set");
        sleep_for(30 * MILLISECOND).expect("it sleeps");
        println!("a thread's: {:#x}", pending());
        timer
    };
    let timer = thread::scope(|scope| scope.spawn(other).join().expect("it ends"));
    println!("the other's: {:#x}", pending());
    tell("once more", set(timer, 0, [MILLISECOND, MILLISECOND]));
    tell_signal("nobody is told", SIGUSR1, 30 * MILLISECOND);
    tell("overruns", call(SYS_timer_getoverrun, &[timer]));
    delete(timer).expect("it goes");
    let timer = make_for(SIGUSR1);
    let awaits = || {
        set(timer, 0, [20 * MILLISECOND, 0]).expect("it is the process'");
        tell_signal("any thread takes it", SIGUSR1, 10 * SECOND);
    };
    thread::scope(|scope| scope.spawn(awaits).join().expect("it ends"));
    delete(timer).expect("it goes");
    mask(0);
}

fn children() {
    mask(bit(SIGUSR1));
    let timer = make_for(SIGUSR1);
    set(timer, 0, [20 * MILLISECOND, 0]).expect("it is set");
    in_child("a child", || {
        tell_left("a child's", timer);
        tell("a child deletes", delete(timer));
        tell("a child's first", make(0, &event(0, 0, NONE, 0)));
        tell("a child's second", make(0, &event(0, 0, NONE, 0)));
        tell_signal("a child is told", SIGUSR1, 40 * MILLISECOND);
    });
    tell_signal("the parent is told", SIGUSR1, 10 * SECOND);
    delete(timer).expect("it goes");
    mask(0);
}

/// RLIMIT_SIGPENDING counts timers of all processes.
fn limits() {
    let made = || (0..9).take_while(|_| make(0, &event(0, 0, NONE, 0)).is_ok()).count();
    for _ in 0..2 {
        in_child("a child", || {
            let limit = [3u64, 3];
            call(SYS_prlimit64, &[0, RLIMIT_SIGPENDING as u64, limit.as_ptr() as u64, 0]).expect("a limit");
            println!("timers within the limit: {}", made());
            tell("one more", make(0, &event(0, 0, NONE, 0)));
            tell("deleted", delete(1));
            tell("one more", make(0, &event(0, 0, NONE, 0)));
        });
    }
}

/// Another program has none of them, but ITIMER_REAL.
fn exec() {
    let path = CString::new(env::current_exe().expect("its name").as_os_str().as_bytes()).expect("a path");
    let end = fork().map(|number| ended(wait(number)));
    let Some(end) = end else {
        mask(bit(SIGUSR1) | bit(SIGALRM));
        let timers = [make_for(SIGUSR1), make_for(SIGUSR1)];
        set(timers[0], 0, [MILLISECOND, MILLISECOND]).expect("it is set");
        set(timers[1], 0, [300 * SECOND, 0]).expect("it is set");
        let time = [0u64, 0, 200, 0];
        call(SYS_setitimer, &[ITIMER_REAL as u64, time.as_ptr() as u64, 0]).expect("it is set");
        sleep_for(20 * MILLISECOND).expect("it sleeps");
        let words = [path.as_ptr() as u64, c"again".as_ptr() as u64, 0];
        call(SYS_execve, &[path.as_ptr() as u64, words.as_ptr() as u64, 0]).expect("it runs");
        exit(1)
    };
    println!("another program: {end}");
}

fn after_exec(what: &str) {
    println!("{what}: pending {:#x}", pending());
    tell_signal("told", SIGUSR1, 20 * MILLISECOND);
    (0..3).for_each(|timer| tell_left(&format!("timer {timer}"), timer));
    tell("the next", make(0, &event(0, 0, NONE, 0)));
    let mut left = [0u64; 4];
    call(SYS_getitimer, &[ITIMER_REAL as u64, left.as_mut_ptr() as u64]).expect("it tells");
    println!("ITIMER_REAL: {} s", left[2] + u64::from(left[3] > 0));
}
