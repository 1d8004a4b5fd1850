//! Processes that are stopped and go on, what their parents are told; what they have run; one thread that runs another program.

use libc::*;
use programs::child::{NOBODY, ended, signal_name, wait};
use programs::machine::{SEEN, dispose, exit, fork, handle, sender};
use programs::timers::{BY_SIGNAL, MILLISECOND, event, left, make, set};
use programs::{call, child, tell};
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::{env, thread};

/// What SIGCHLD told last.
static TOLD: AtomicI32 = AtomicI32::new(0);

extern "C" fn told(_: i32, info: &siginfo_t, _: *mut c_void) {
    TOLD.store(info.si_code << 8 | sender(info).1, SeqCst);
}

extern "C" fn count(_: i32, _: &siginfo_t, _: *mut c_void) {
    SEEN.fetch_add(1, SeqCst);
}

fn main() {
    if let Some(what) = env::args().nth(1) {
        let own = call(SYS_getpid, &[]);
        return println!("  {what}: its number is its process' {}", call(SYS_gettid, &[]) == own);
    }
    // In a group of its own, so that its children are not in their parent's, and somebody can have them go on.
    let end = child(|| {
        call(SYS_setpgid, &[0, 0]).expect("a group");
        reports();
        of_themselves();
        groups();
        by_running();
        0
    });
    println!("{end}");
    replaced();
}

fn send(number: i32, signal: i32) {
    call(SYS_kill, &[number as u64, signal as u64]).expect("it is sent");
}

fn raise(signal: i32) {
    send(std::process::id() as i32, signal);
}

/// A child in a group of its own.
fn begin(body: impl FnOnce() -> i32) -> i32 {
    let Some(number) = fork() else {
        call(SYS_setpgid, &[0, 0]).expect("a group");
        exit(body())
    };
    // Whoever is first.
    let _ = call(SYS_setpgid, &[number as u64, number as u64]);
    number
}

fn pause() -> i32 {
    loop {
        let _ = call(SYS_ppoll, &[0, 0, 0, 0, 8]);
    }
}

/// What `wait4` tells of a child.
fn status(number: i32, options: i32) -> String {
    let mut status = 0i32;
    match call(SYS_wait4, &[number as u64, &raw mut status as u64, options as u64, 0]) {
        Ok(0) => "nothing".into(),
        Ok(_) if status == 0xffff => "goes on".into(),
        Ok(_) if status & 0xff == 0x7f => format!("stopped by {}", signal_name(status >> 8)),
        Ok(_) => ended(status),
        Err(error) => error.to_string(),
    }
}

/// The next that SIGCHLD tells.
fn next_told() -> String {
    loop {
        match TOLD.swap(0, SeqCst) {
            0 => _ = call(SYS_sched_yield, &[]),
            told => return format!("code {} status {}", told >> 8, told & 0xff),
        }
    }
}

fn reports() {
    handle(SIGCHLD, told, SA_RESTART).expect("a handler");
    let number = begin(pause);
    for signal in [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU] {
        send(number, signal);
        // Before it is waited for: Linux's wait takes the signal's number, which may not be told yet.
        let told = next_told();
        println!("{}: {}, {told}", signal_name(signal), status(number, WUNTRACED));
        send(number, signal);
        println!("  again: {}", status(number, WUNTRACED | WNOHANG));
        send(number, SIGCONT);
        println!("  it {}, {}", status(number, WCONTINUED), next_told());
        println!("  then {}", status(number, WCONTINUED | WUNTRACED | WNOHANG));
    }
    send(number, SIGSTOP);
    for options in [WSTOPPED | WNOWAIT, WSTOPPED, WEXITED | WNOHANG, WNOHANG, WNOWAIT, WSTOPPED | 0x10] {
        let mut info = [0i32; 32];
        tell("waitid", call(SYS_waitid, &[1, number as u64, info.as_mut_ptr() as u64, options as u64, 0]));
        println!("  code {} status {}", info[2], info[6]);
    }
    let state = std::fs::read_to_string(format!("/proc/{number}/status")).expect("its status");
    println!("{}", state.lines().find(|line| line.starts_with("State")).unwrap_or_default());
    send(number, SIGTERM);
    println!("what ends it waits: {}", status(number, WNOHANG | WUNTRACED));
    next_told();
    send(number, SIGCONT);
    println!("{}", status(number, 0));
    handle(SIGCHLD, told, SA_RESTART | SA_NOCLDSTOP).expect("a handler");
    let number = begin(pause);
    send(number, SIGSTOP);
    TOLD.store(0, SeqCst);
    println!("{}, and told {}", status(number, WUNTRACED), TOLD.load(SeqCst));
    send(number, SIGKILL);
    println!("{}, {}", status(number, WCONTINUED), next_told());
    dispose(SIGCHLD, SIG_DFL).expect("as usual");
}

fn of_themselves() {
    let mask = |signals: u64| call(SYS_rt_sigprocmask, &[2, &raw const signals as u64, 0, 8]).expect("a mask");
    let end = |name: &str, number: i32| {
        let mut text = status(number, WUNTRACED);
        if text.starts_with("stopped") {
            send(number, SIGCONT);
            text = format!("{text}, {}", status(number, WUNTRACED));
        }
        println!("{name}: {text}");
    };
    let handled = || {
        handle(SIGCONT, count, 0).expect("a handler");
        raise(SIGSTOP);
        SEEN.load(SeqCst) as i32
    };
    end("a handler of SIGCONT", begin(handled));
    let ignored = || {
        dispose(SIGTSTP, SIG_IGN).expect("ignored");
        raise(SIGTSTP);
        3
    };
    end("ignored", begin(ignored));
    let masked = || {
        mask(1 << (SIGTSTP - 1) | 1 << (SIGCONT - 1));
        raise(SIGTSTP);
        raise(SIGCONT);
        let mut pending = 0u64;
        call(SYS_rt_sigpending, &[&raw mut pending as u64, 8]).expect("a set");
        raise(SIGTSTP);
        mask(0);
        (pending >> (SIGCONT - 1) & 1 | pending >> (SIGTSTP - 1) & 2) as i32
    };
    end("masked, then open", begin(masked));
    let sleeps = || {
        let own = std::process::id() as i32;
        let stopper = begin(move || {
            send(own, SIGSTOP);
            0
        });
        let slept = call(SYS_nanosleep, &[[0, 50 * MILLISECOND].as_ptr() as u64, 0]);
        wait(stopper);
        i32::from(slept.is_ok())
    };
    end("a sleep", begin(sleeps));
}

/// Nobody is left who could have a group go on: it does not stop, and what is stopped is hung up.
fn groups() {
    let orphan = child(|| {
        call(SYS_setsid, &[]).expect("a session");
        raise(SIGTSTP);
        4
    });
    println!("an orphan: {orphan}");
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    let leader = begin(|| {
        let number = begin(|| {
            raise(SIGSTOP);
            5
        });
        println!("  {}", status(number, WUNTRACED));
        0
    });
    wait(leader);
    call(SYS_close, &[ends[1] as u64]).expect("closed");
    // Until the last writer is gone.
    tell("the stopped orphan is hung up", call(SYS_read, &[ends[0] as u64, &raw mut ends as u64, 1]));
}

/// Has `start` arm something that sends signals, and runs until so many have come.
fn run_until(signals: u64, start: impl FnOnce()) {
    let seen = SEEN.load(SeqCst);
    start();
    while SEEN.load(SeqCst) < seen.saturating_add(signals) {
        std::hint::spin_loop();
    }
}

/// Timers and limits of what a process has run.
fn by_running() {
    for signal in [SIGVTALRM, SIGPROF, SIGUSR1, SIGXCPU] {
        handle(signal, count, SA_RESTART).expect("a handler");
    }
    for which in [ITIMER_VIRTUAL, ITIMER_PROF] {
        let (mut words, none) = ([0u64, 10_000, 0, 20_000], [0u64; 4]);
        let interval = |number: c_long, words: *const u64| call(number, &[which as u64, words as u64, 0]);
        run_until(3, || tell("setitimer", interval(SYS_setitimer, words.as_ptr())));
        tell("getitimer", interval(SYS_getitimer, words.as_mut_ptr()));
        println!("  every {}, in less {}", words[1], words[3] <= 20_000);
        tell("disarmed", interval(SYS_setitimer, none.as_ptr()));
    }
    let by_number = |number: u64, kind: i32| !(number as i32) << 3 | kind;
    let own = call(SYS_gettid, &[]).expect("a number");
    for clock in [CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, by_number(own, 6), by_number(0, 2)] {
        let timer = make(clock, &event(0, SIGUSR1, BY_SIGNAL, 0)).expect("a timer");
        run_until(1, || tell("a timer", set(timer, 0, [20 * MILLISECOND, 0])));
        println!("  then {:?}", left(timer));
    }
    tell("the clock of nobody", make(by_number(NOBODY, 2), &event(0, SIGUSR1, BY_SIGNAL, 0)));
    for limits in [[1u64, 2], [0, 1]] {
        let end = child(|| {
            call(SYS_setrlimit, &[RLIMIT_CPU as u64, limits.as_ptr() as u64]).expect("limits");
            run_until(u64::MAX, || {});
            0
        });
        println!("limits {limits:?}: {end}");
    }
}

/// A thread has its process run another program: the others are gone, and its number is the process'.
fn replaced() {
    for place in ["first", "another"] {
        let end = child(|| {
            (0..3).for_each(|_| drop(thread::spawn(pause)));
            thread::spawn(|| run_until(u64::MAX, || {}));
            let run = || {
                let path = c"/proc/self/exe".as_ptr() as u64;
                let words = [path, c"replaced".as_ptr() as u64, 0];
                call(SYS_execve, &[path, words.as_ptr() as u64, [0u64].as_ptr() as u64])
            };
            let _ = if place == "first" { run() } else { thread::spawn(run).join().expect("no panic") };
            1
        });
        println!("{place} thread: {end}");
    }
}
