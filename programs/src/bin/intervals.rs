//! Timers whose periods are shorter than the kernel can keep: programs go on, can be ended, and are told how often each came. Many
//! timers, and many sleepers, whose time comes at once.

use libc::*;
use programs::child::{ended, wait};
use programs::machine::{SEEN, dispose, fork, handle};
use programs::timers::*;
use programs::{call, child, tell};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

/// ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF, and what each sends.
const KINDS: [(&str, u64, i32); 3] = [("real", 0, SIGALRM), ("virtual", 1, SIGVTALRM), ("prof", 2, SIGPROF)];

extern "C" fn count(_: i32, _: &siginfo_t, _: *mut c_void) {
    SEEN.fetch_add(1, SeqCst);
}

fn main() {
    handled();
    killed();
    masked();
    ignored();
    overruns();
    many_timers();
    sleepers();
}

/// Microseconds, first and as a period.
fn set_interval(kind: u64, time: u64) {
    let words = [time / 1_000_000, time % 1_000_000, time / 1_000_000, time % 1_000_000];
    call(SYS_setitimer, &[kind, words.as_ptr() as u64, 0]).expect("it is set");
}

/// Whether there is time left, and microseconds of the period.
fn interval(kind: u64) -> (bool, u64) {
    let mut words = [0u64; 4];
    call(SYS_getitimer, &[kind, words.as_mut_ptr() as u64]).expect("it tells");
    (words[2] > 0 || words[3] > 0, words[1])
}

/// A handler is called again and again, and what it interrupts comes to its end.
fn handled() {
    for (name, kind, signal) in KINDS {
        let end = child(|| {
            handle(signal, count, SA_RESTART).expect("a handler");
            set_interval(kind, 1);
            let mut turns = 0u64;
            while SEEN.load(SeqCst) < 20 || turns < 10_000 {
                turns += 1;
            }
            set_interval(kind, 0);
            println!("{name}: armed {:?}", interval(kind));
            0
        });
        println!("{name}, handled: {end}");
    }
}

/// Others go on beside a process that has nothing but timers, and end it.
fn killed() {
    for (name, kind, signal) in KINDS {
        for disposition in [SIG_IGN, count as *const () as usize] {
            let mut ends = [0i32; 2];
            call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
            let number = fork().unwrap_or_else(|| {
                match disposition {
                    SIG_IGN => dispose(signal, SIG_IGN),
                    _ => handle(signal, count, 0),
                }
                .expect("it is set");
                set_interval(kind, 1);
                call(SYS_write, &[ends[1] as u64, b"x".as_ptr() as u64, 1]).expect("it is told");
                loop {
                    std::hint::spin_loop();
                }
            });
            let mut byte = [0u8];
            call(SYS_read, &[ends[0] as u64, byte.as_mut_ptr() as u64, 1]).expect("it has begun");
            // Each asks all CPUs for something (MEMBARRIER_CMD_GLOBAL).
            let answers = (0..20).filter(|_| call(SYS_membarrier, &[1, 0]) == Ok(0)).count();
            call(SYS_kill, &[number as u64, SIGKILL as u64]).expect("it is sent");
            println!("{name}, beside: {answers} barriers, {}", ended(wait(number)));
            for end in ends {
                call(SYS_close, &[end as u64]).expect("it was open");
            }
        }
    }
}

/// A signal that waits is there once, and ITIMER_REAL counts on when it is taken.
fn masked() {
    mask(bit(SIGALRM));
    set_interval(0, 1);
    while pending() & bit(SIGALRM) == 0 {}
    println!("masked: armed {:?}", interval(0));
    for turn in 0..3 {
        tell_signal(&format!("masked, {turn}"), SIGALRM, 10 * SECOND);
    }
    set_interval(0, 0);
    await_signal(SIGALRM, 0).ok();
    tell_signal("masked, set to nothing", SIGALRM, 20 * MILLISECOND);
    // A period without a first time is none.
    let words = [5u64, 5, 0, 0];
    call(SYS_setitimer, &[0, words.as_ptr() as u64, 0]).expect("it is set");
    println!("masked, no first time: armed {:?}", interval(0));
    mask(0);
}

/// ITIMER_REAL whose signal comes to nothing counts on only once another SIGALRM is taken.
fn ignored() {
    dispose(SIGALRM, SIG_IGN).expect("ignored");
    set_interval(0, 1);
    while interval(0).0 {}
    println!("ignored: armed {:?}", interval(0));
    mask(bit(SIGALRM));
    handle(SIGALRM, count, 0).expect("a handler");
    tell_signal("ignored, then handled", SIGALRM, 20 * MILLISECOND);
    call(SYS_kill, &[std::process::id().into(), SIGALRM as u64]).expect("it is sent");
    tell_signal("ignored, another's", SIGALRM, 0);
    tell_signal("ignored, after another's", SIGALRM, 10 * SECOND);
    set_interval(0, 0);
    await_signal(SIGALRM, 0).ok();
    mask(0);
}

/// However short a period is, each is counted.
fn overruns() {
    mask(bit(SIGUSR1));
    for (name, clock) in [("real", CLOCK_REALTIME), ("monotonic", CLOCK_MONOTONIC)] {
        let timer = make(clock, &event(7, SIGUSR1, BY_SIGNAL, 0)).expect("a timer");
        let before = now(CLOCK_MONOTONIC);
        set(timer, 0, [1, 1]).expect("it is set");
        sleep_for(5 * MILLISECOND).expect("it sleeps");
        let first = tell_signal(&format!("{name}, 1 ns"), SIGUSR1, 10 * SECOND) as u64;
        let most = now(CLOCK_MONOTONIC) - before;
        println!("{name}, 1 ns: as many as nanoseconds {}", (5 * MILLISECOND - 1..most).contains(&first));
        let told = call(SYS_timer_getoverrun, &[timer]);
        println!("{name}, 1 ns: told again {}", told == Ok(first));
        tell_signal(&format!("{name}, 1 ns, again"), SIGUSR1, 10 * SECOND);
        delete(timer).expect("it goes");
        await_signal(SIGUSR1, 0).ok();
    }
    for (name, clock) in [("process", CLOCK_PROCESS_CPUTIME_ID), ("thread", CLOCK_THREAD_CPUTIME_ID)] {
        let timer = make(clock, &event(7, SIGUSR1, BY_SIGNAL, 0)).expect("a timer");
        set(timer, 0, [1, 1]).expect("it is set");
        for turn in 0..3 {
            while pending() & bit(SIGUSR1) == 0 {}
            tell_signal(&format!("{name}, turn {turn}"), SIGUSR1, 0);
        }
        delete(timer).expect("it goes");
        await_signal(SIGUSR1, 0).ok();
    }
    mask(0);
}

/// Timers that are due at the same moment: each tells once.
fn many_timers() {
    const SIGNAL: i32 = 40;
    mask(bit(SIGNAL));
    for many in [1, 31, 32, 33, 320, 1000] {
        let event = |value| event(value, SIGNAL, BY_SIGNAL, 0);
        let timers: Vec<u64> = (0..many).map(|value| make(CLOCK_MONOTONIC, &event(value)).expect("a timer")).collect();
        let due = now(CLOCK_MONOTONIC) + 20 * MILLISECOND;
        for timer in &timers {
            set(*timer, ABSOLUTE, [due, 0]).expect("it is set");
        }
        let mut values: Vec<i32> = (0..many).map_while(|_| Some(await_signal(SIGNAL, 10 * SECOND).ok()?[6])).collect();
        values.sort_unstable();
        values.dedup();
        println!("{many} timers: {} told", values.len());
        tell_signal("  and no more", SIGNAL, 0);
        for timer in timers {
            delete(timer).expect("it goes");
        }
    }
    mask(0);
}

/// Threads whose sleep ends at the same moment, or at once.
fn sleepers() {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    for many in [1, 31, 32, 33, 320] {
        let due = now(CLOCK_MONOTONIC) + 20 * MILLISECOND;
        let until = [due / SECOND, due % SECOND];
        let sleep = move || {
            let slept = call(SYS_clock_nanosleep, &[CLOCK_MONOTONIC as u64, 1, until.as_ptr() as u64, 0]);
            slept.is_ok() && now(CLOCK_MONOTONIC) >= due
        };
        let begin = |_| thread::Builder::new().stack_size(64 << 10).spawn(sleep).expect("a thread");
        let threads: Vec<_> = (0..many).map(begin).collect();
        let slept = threads.into_iter().filter_map(|thread| thread.join().ok()).filter(|slept| *slept).count();
        println!("{many} sleepers: {slept} slept until then");
    }
    let storm = || {
        for _ in 0..200 {
            sleep_for(1).expect("it sleeps");
            TURNS.fetch_add(1, SeqCst);
        }
    };
    thread::scope(|scope| (0..33).for_each(|_| drop(scope.spawn(storm))));
    println!("sleeps of 1 ns: {}", TURNS.load(SeqCst));
    tell("asleep for nothing", sleep_for(0));
    println!("handlers called: {}", SEEN.load(SeqCst));
}
