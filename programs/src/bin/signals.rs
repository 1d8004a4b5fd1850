//! Signals: alternate stacks, waiting for them, those that queue, and what is told of faults and of children.

use libc::*;
use programs::child::{ended, signal_name, wait};
use programs::machine::{SEEN, dispose, exit, fork, handle, sender, skip_instruction, syndrome};
use programs::proc::asleep;
use programs::{Answer, call, child, in_child, page, peek, tell};
use std::sync::atomic::Ordering;

extern "C" fn told(signal: i32, info: &siginfo_t, _: *mut c_void) {
    println!("  {} code {} status {}", signal_name(signal), info.si_code, sender(info).1);
}

extern "C" fn seen(_: i32, _: &siginfo_t, _: *mut c_void) {
    SEEN.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn quiet(_: i32, _: &siginfo_t, _: *mut c_void) {}

fn send(signal: i32) {
    call(SYS_kill, &[std::process::id().into(), signal as u64]).expect("it is sent");
}

fn mask(how: i32, set: u64) -> u64 {
    let mut before = 0u64;
    call(SYS_rt_sigprocmask, &[how as u64, &raw const set as u64, &raw mut before as u64, 8]).expect("a mask");
    before
}

fn pending() -> u64 {
    let mut set = 0u64;
    call(SYS_rt_sigpending, &[&raw mut set as u64, 8]).expect("a set");
    set
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn main() {
    children();
    stacks();
    waits();
    awaited();
    restarts();
    queues();
    kernels_half();
}

fn children() {
    handle(SIGCHLD, told, 0).expect("a handler");
    println!("exit: {}", child(|| 5));
    println!(
        "kill: {}",
        child(|| {
            send(SIGKILL);
            0
        })
    );
    handle(SIGCHLD, seen, SA_RESTART).expect("a handler");
    let ends_untold = || {
        SEEN.store(0, Ordering::SeqCst);
        child(|| 0);
        SEEN.load(Ordering::SeqCst) == 0
    };
    println!("waited for before its end is told: {} of 300", (0..300).filter(|_| ends_untold()).count());
    dispose(SIGCHLD, SIG_IGN).expect("ignored");
    let number = fork().unwrap_or_else(|| exit(3));
    tell("wait while ignored", call(SYS_wait4, &[number as u64, 0, 0, 0]));
    dispose(SIGCHLD, SIG_DFL).expect("usual");
}

fn stacks() {
    let set = |start: u64, flags: u64, bytes: u64| {
        let stack = [start, flags, bytes];
        call(SYS_sigaltstack, &[stack.as_ptr() as u64, 0])
    };
    let room = programs::memory::pages(16);
    tell("too small", set(room, 0, 1024));
    tell("unknown flags", set(room, 5, 16 * page()));
    tell("a stack", set(room, 0, 16 * page()));
    extern "C" fn where_is_it(_: i32, _: &siginfo_t, _: *mut c_void) {
        let local = 0u8;
        SEEN.store(&raw const local as u64, Ordering::SeqCst);
        let mut stack = [0u64; 3];
        call(SYS_sigaltstack, &[0, stack.as_mut_ptr() as u64]).expect("it tells");
        println!("  flags {}", stack[1] as u32);
        tell("  changed meanwhile", call(SYS_sigaltstack, &[[0u64, 2, 0].as_ptr() as u64, 0]));
    }
    for flags in [SA_ONSTACK, 0] {
        handle(SIGUSR1, where_is_it, flags).expect("a handler");
        send(SIGUSR1);
        let at = SEEN.load(Ordering::SeqCst);
        println!("on the stack: {}", (room..room + 16 * page()).contains(&at));
    }
    tell("none", set(0, SS_DISABLE as u64, 0));
}

fn waits() {
    handle(SIGALRM, quiet, 0).expect("a handler");
    let time = [0u64, 0, 0, 200_000];
    // Masked until it is waited for: it may come at once.
    mask(SIG_BLOCK, bit(SIGALRM));
    tell("a timer", call(SYS_setitimer, &[ITIMER_REAL as u64, time.as_ptr() as u64, 0]));
    let none = 0u64;
    tell("suspended", call(SYS_rt_sigsuspend, &[&raw const none as u64, 8]));
    mask(SIG_SETMASK, bit(SIGUSR1));
    send(SIGUSR1);
    let (set, long, short) = (bit(SIGUSR1), [5u64, 0], [0u64, 1_000_000]);
    let mut info = [0i32; 32];
    let wait_for = |to: u64, time: u64| call(SYS_rt_sigtimedwait, &[&raw const set as u64, to, time, 8]);
    tell("waited for", wait_for(info.as_mut_ptr() as u64, long.as_ptr() as u64));
    println!("signal {} code {}", info[0], info[2]);
    tell("not there", wait_for(0, short.as_ptr() as u64));
    mask(SIG_SETMASK, 0);
    let (long, mut left) = ([10u64, 0], [0u64; 2]);
    call(SYS_setitimer, &[ITIMER_REAL as u64, time.as_ptr() as u64, 0]).expect("a timer");
    tell("sleep", call(SYS_nanosleep, &[long.as_ptr() as u64, left.as_mut_ptr() as u64]));
    println!("left: {} seconds", left[0]);
}

/// What is ignored unless somebody waits for it; and what nobody can wait for.
fn awaited() {
    let long = [5u64, 0];
    let short = [0u64, 50_000_000];
    let wait_for = |set: u64| call(SYS_rt_sigtimedwait, &[&raw const set as u64, 0, long.as_ptr() as u64, 8]);
    let pause = || call(SYS_nanosleep, &[short.as_ptr() as u64, 0]).expect("it sleeps");
    dispose(SIGCHLD, SIG_DFL).expect("usual");
    mask(SIG_SETMASK, bit(SIGCHLD));
    let number = fork().unwrap_or_else(|| {
        pause();
        exit(5)
    });
    tell("a child's end", wait_for(bit(SIGCHLD)));
    println!("the child {}", ended(wait(number)));
    mask(SIG_SETMASK, 0);
    let number = fork().unwrap_or_else(|| {
        mask(SIG_SETMASK, u64::MAX);
        exit(wait_for(u64::MAX).map_or(1, |signal| signal as i32))
    });
    pause();
    call(SYS_kill, &[number as u64, SIGKILL as u64]).expect("it is sent");
    println!("one that waits for all: {}", ended(wait(number)));
}

fn restarts() {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    let mut byte = 0u8;
    for (name, flags) in [("interrupted", 0), ("restarted", SA_RESTART)] {
        handle(SIGUSR1, quiet, flags).expect("a handler");
        let parent = u64::from(std::process::id());
        let number = fork().unwrap_or_else(|| {
            let short = [0u64, 300_000_000];
            call(SYS_nanosleep, &[short.as_ptr() as u64, 0]).expect("it sleeps");
            call(SYS_kill, &[parent, SIGUSR1 as u64]).expect("it is sent");
            call(SYS_nanosleep, &[short.as_ptr() as u64, 0]).expect("it sleeps");
            call(SYS_write, &[ends[1] as u64, c"x".as_ptr() as u64, 1]).expect("it writes");
            exit(0)
        });
        let read = call(SYS_read, &[ends[0] as u64, &raw mut byte as u64, 1]);
        tell(name, read);
        if read.is_err() {
            call(SYS_read, &[ends[0] as u64, &raw mut byte as u64, 1]).expect("it reads");
        }
        wait(number);
    }
}

/// What a program is told of faults all over the kernel's half: nothing of what is there.
fn kernels_half() {
    extern "C" fn note(_: i32, _: &siginfo_t, context: *mut c_void) {
        SEEN.store(syndrome(context).map_or(0, |syndrome| syndrome & 0x3f), Ordering::SeqCst);
        skip_instruction(context);
    }
    handle(SIGSEGV, note, 0).expect("a handler");
    let mut found = std::collections::BTreeSet::new();
    for at in (0xffff_0000_0000_0000..=u64::MAX - 0xfff_ffff).step_by(1 << 38).chain([0xffff_0000_4020_0000]) {
        SEEN.store(u64::MAX, Ordering::SeqCst);
        std::hint::black_box(peek(at));
        found.insert(SEEN.load(Ordering::SeqCst));
    }
    println!("the kernel's half: {found:#x?}");
    dispose(SIGSEGV, SIG_DFL).expect("usual");
}

/// Sends itself a signal as `sigqueue` does.
fn queue(signal: i32) -> Answer {
    let mut info = [0i32; 32];
    (info[0], info[2]) = (signal, -1);
    call(SYS_rt_sigqueueinfo, &[std::process::id().into(), signal as u64, info.as_ptr() as u64])
}

/// RLIMIT_SIGPENDING counts what waits for all processes of a real user, and their timers.
fn of_a_user() {
    mask(SIG_BLOCK, bit(40) | bit(SIGUSR2));
    let limit =
        |most: u64| call(SYS_prlimit64, &[0, RLIMIT_SIGPENDING as u64, [most, 5].as_ptr() as u64, 0]).expect("a limit");
    let tell_all = |what: &str| {
        let told = (0..9).take_while(|_| queue(40).is_ok()).count();
        let text = std::fs::read_to_string("/proc/self/status").expect("status");
        println!("{what}: {told} more, {:?}", text.lines().find(|line| line.starts_with("SigQ")));
    };
    limit(5);
    let mut made = 0u64;
    tell("a timer", call(SYS_timer_create, &[1, 0, &raw mut made as u64]));
    let other = fork().unwrap_or_else(|| {
        (0..2).for_each(|_| _ = queue(40).expect("room"));
        call(SYS_rt_sigsuspend, &[[!0u64].as_ptr() as u64, 8]).ok();
        exit(0)
    });
    asleep(&other.to_string());
    tell_all("beside a timer and a child that has two");
    tell("one more that does not queue", queue(SIGUSR2));
    tell("one that is ignored", dispose(41, SIG_IGN).and_then(|_| queue(41)));
    tell("a timer", call(SYS_timer_create, &[1, 0, &raw mut made as u64]));
    in_child("another user", || {
        tell("who", call(SYS_setresuid, &[1000, 0, 0]));
        tell_all("another user");
    });
    in_child("another to files alone", || {
        tell("who", call(SYS_setresuid, &[0, 1000, 0]));
        tell_all("another to files alone");
    });
    call(SYS_kill, &[other as u64, SIGKILL as u64]).expect("it is sent");
    wait(other);
    tell_all("once the child is gone");
    limit(0);
    tell("a timer is not there", call(SYS_timer_create, &[1, 0, &raw mut made as u64]));
}

/// Signals from 34 on wait one by one.
fn queues() {
    extern "C" fn value(signal: i32, info: &siginfo_t, _: *mut c_void) {
        println!("  {} code {} value {}", signal_name(signal), info.si_code, sender(info).1);
    }
    in_child("no room", || {
        mask(SIG_BLOCK, bit(40) | bit(41) | bit(SIGUSR2));
        let few = [6u64, 6];
        tell("a limit", call(SYS_prlimit64, &[0, RLIMIT_SIGPENDING as u64, few.as_ptr() as u64, 0]));
        for signal in [40, 41, 40, SIGUSR2, 40, 40] {
            tell("queue", queue(signal));
        }
        tell("of a thread", call(SYS_tkill, &[call(SYS_gettid, &[]).expect("a number"), 40]));
        tell("by kill", call(SYS_kill, &[std::process::id().into(), 40]));
        exit(0);
    });
    in_child("of a user", of_a_user);
    mask(SIG_BLOCK, bit(40) | bit(41));
    for signal in [40, 41] {
        handle(signal, value, 0).expect("a handler");
    }
    for (signal, number) in [(41, 1), (40, 2), (41, 3), (40, 4)] {
        let mut info = [0i32; 32];
        (info[0], info[2], info[4], info[6]) = (signal, -1, std::process::id() as i32, number);
        tell("queue", call(SYS_rt_sigqueueinfo, &[std::process::id().into(), signal as u64, info.as_ptr() as u64]));
    }
    println!("pending: {:#x}", pending());
    mask(SIG_SETMASK, 0);
}
