//! Children: which are waited for, by what, and what may be asked of others.

use libc::*;
use programs::child::{NOBODY, ended, wait};
use programs::machine::{exit, fork};
use programs::{Answer, call, in_child, tell};

// Of one type with every C library.
const NUMBERS: u64 = 7;
const WALL: u64 = 0x4000_0000;
const WCLONE: u64 = 0x8000_0000;

fn main() {
    waited_by_id();
    usage();
    other_signals();
    siblings();
    vfork();
    by_thread();
    limits();
    scheduling();
    controls();
}

fn pipe() -> [u64; 2] {
    let mut ends = [0i32; 2];
    call(SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]).expect("a pipe");
    ends.map(|end| end as u64)
}

/// A child that ends once a byte comes.
fn held(from: u64) -> i32 {
    fork().unwrap_or_else(|| {
        let mut byte = 0u8;
        call(SYS_read, &[from, &raw mut byte as u64, 1]).ok();
        exit(7)
    })
}

fn go(to: u64) {
    call(SYS_write, &[to, c"x".as_ptr() as u64, 1]).expect("it writes");
}

fn told(what: &str, answer: Answer) {
    tell(what, answer.map(|number| u64::from(number > 0)));
}

fn waited_by_id() {
    let by = |kind: u64, number: i64, options: i32| {
        let mut info = [0i32; 32];
        let answer = call(SYS_waitid, &[kind, number as u64, info.as_mut_ptr() as u64, options as u64, 0]);
        answer.map(|_| info[6] as u64)
    };
    tell("no child", by(0, 0, WEXITED));
    tell("a process 0", by(1, 0, WEXITED));
    tell("a process -5", by(1, -5, WEXITED));
    tell("a group -5", by(2, -5, WEXITED));
    tell("an unknown kind", by(9, 0, WEXITED));
    for (name, kind, number) in [("all", 0, 0), ("the own group", 2, 0)] {
        let child = fork().unwrap_or_else(|| exit(6));
        tell(name, by(kind, number, WEXITED));
        told("again", call(SYS_wait4, &[child as u64, 0, 0, 0]));
    }
    let smallest = i64::from(i32::MIN) as u64;
    tell("the smallest number", call(SYS_wait4, &[smallest, 0, 0, 0]));
}

fn usage() {
    let child = fork().unwrap_or_else(|| exit(5));
    let mut usage = [0x5555_5555u64; 18];
    let to = usage.as_mut_ptr() as u64;
    tell("usage", call(SYS_waitid, &[1, child as u64, 0, WEXITED as u64, to]));
    println!("it was told: {}", usage[0] < 1000 && usage[17] != 0x5555_5555);
}

/// Children that tell their end by no SIGCHLD.
fn other_signals() {
    for signal in [0u64, SIGURG as u64] {
        let make = || match call(SYS_clone, &[signal, 0, 0, 0, 0]).expect("a child") {
            0 => exit(4),
            number => number,
        };
        let child = make();
        tell("waited for as usual", call(SYS_wait4, &[child, 0, 0, 0]));
        told("waited for as others", call(SYS_wait4, &[child, 0, WCLONE, 0]));
        let child = make();
        tell("any, as usual", call(SYS_wait4, &[-1i64 as u64, 0, 0, 0]));
        told("any at all", call(SYS_wait4, &[-1i64 as u64, 0, WALL, 0]));
        tell("it is gone", call(SYS_wait4, &[child, 0, WALL, 0]));
    }
    let usual = fork().unwrap_or_else(|| exit(3));
    tell("a usual one as others", call(SYS_wait4, &[usual as u64, 0, WCLONE, 0]));
    println!("{}", ended(wait(usual)));
}

/// A child's sibling, which the child has begun with a signal or none: their parent waits for both as usual.
fn siblings() {
    for signal in [0, SIGUSR1] {
        in_child("siblings", || {
            let child = fork().unwrap_or_else(|| {
                let flags = (CLONE_PARENT | signal) as u64;
                exit(i32::from(call(SYS_clone, &[flags, 0]).is_err()))
            });
            println!("the child {}", ended(wait(child)));
            tell(
                "its sibling, as usual",
                call(SYS_wait4, &[-1i64 as u64, 0, 0, 0]).map(|number| u64::from(number > 0)),
            );
        });
    }
}

/// The parent waits though it has memory of its own.
fn vfork() {
    let [from, to] = pipe();
    match call(SYS_clone, &[(CLONE_VFORK | SIGCHLD) as u64, 0, 0, 0, 0]).expect("a child") {
        0 => {
            let short = [0u64, 50_000_000];
            call(SYS_nanosleep, &[short.as_ptr() as u64, 0]).ok();
            go(to);
            exit(0);
        }
        child => {
            let mut there = 0u32;
            call(SYS_ioctl, &[from, 0x541b, &raw mut there as u64]).expect("it tells");
            println!("the child came first: {}", there == 1);
            wait(child as i32);
        }
    }
}

fn by_thread() {
    in_child("a thread's number", || {
        let (give, take) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            give.send(call(SYS_gettid, &[]).expect("a number")).expect("it is taken");
            loop {
                std::thread::park();
            }
        });
        let other = take.recv().expect("a number");
        tell("signal 0 to a thread's number", call(SYS_kill, &[other, 0]));
        tell("a signal to a thread's number", call(SYS_kill, &[other, SIGTERM as u64]));
    });
    let [from, to] = pipe();
    let child = held(from);
    tell("a child's group", call(SYS_setpgid, &[child as u64, child as u64]));
    go(to);
    wait(child);
}

fn limits() {
    let [from, to] = pipe();
    let child = held(from);
    let (new, mut old) = ([77u64, 99], [0u64; 2]);
    let ask = |number: u64, which: u64, new: u64, old: u64| call(SYS_prlimit64, &[number, which, new, old]);
    let place = old.as_mut_ptr() as u64;
    tell("a child's limit", ask(child as u64, NUMBERS, new.as_ptr() as u64, place));
    tell("asked again", ask(child as u64, NUMBERS, 0, place));
    println!("{old:?}");
    tell("of nobody", ask(NOBODY, NUMBERS, 0, place));
    tell("an unknown limit of nobody", ask(NOBODY, 99, 0, place));
    tell("of nobody, from nowhere", ask(NOBODY, 7, 8, place));
    go(to);
    wait(child);
}

fn scheduling() {
    let mut set = [1u64; 4];
    let to = set.as_mut_ptr() as u64;
    for bytes in [0, 4, 7, 12] {
        tell(&format!("affinity, {bytes} bytes"), call(SYS_sched_getaffinity, &[0, bytes, to]));
    }
    let first = [1u64];
    let from = first.as_ptr() as u64;
    tell("affinity set, 4 bytes", call(SYS_sched_setaffinity, &[0, 4, from]));
    tell("affinity set, no bytes", call(SYS_sched_setaffinity, &[0, 0, from]));
    tell("affinity of nobody set", call(SYS_sched_setaffinity, &[NOBODY, 8, from]));
    for policy in [0, 1, 2, 3, 4, 5, 6, 7, -1i64 as u64] {
        tell("highest", call(SYS_sched_get_priority_max, &[policy]));
        tell("lowest", call(SYS_sched_get_priority_min, &[policy]));
    }
    classes();
    tell("priority, an unknown kind", call(SYS_getpriority, &[3, 0]));
    tell("priority of nobody", call(SYS_getpriority, &[0, NOBODY]));
    tell("priority of a group of nobody", call(SYS_getpriority, &[1, NOBODY]));
    tell("priority of a user who is nobody", call(SYS_getpriority, &[2, NOBODY]));
    in_child("a group of its own", || {
        call(SYS_setpgid, &[0, 0]).expect("a group");
        tell("priority of the own group", call(SYS_getpriority, &[1, 0]));
    });
}

/// Where a thread is to run, its class, priority and nice value are what was set.
fn classes() {
    in_child("classes", || {
        for cpu in [1, 0] {
            tell("one CPU", call(SYS_sched_setaffinity, &[0, 8, [1u64 << cpu].as_ptr() as u64]));
            let (mut here, mut set) = (9u32, [0u64]);
            call(SYS_getcpu, &[&raw mut here as u64, 0, 0]).expect("a CPU");
            call(SYS_sched_getaffinity, &[0, 8, set.as_mut_ptr() as u64]).expect("a set");
            println!("on {here}, of {:#x}", set[0]);
        }
        for (class, priority) in [(0, 0), (0, 1), (1, 0), (1, 10), (2, 99), (2, 100), (3, 0), (4, 0), (5, 0), (6, 0)] {
            let (wanted, mut found) = ([priority], [0u64]);
            let set = call(SYS_sched_setscheduler, &[0, class, wanted.as_ptr() as u64]);
            tell(&format!("class {class}, priority {priority}"), set);
            tell("its class", call(SYS_sched_getscheduler, &[0]));
            tell("its priority", call(SYS_sched_getparam, &[0, found.as_mut_ptr() as u64]).map(|_| found[0]));
        }
        tell("class of nobody", call(SYS_sched_getscheduler, &[NOBODY]));
        tell("class of -1", call(SYS_sched_getscheduler, &[u64::MAX]));
        tell("priority to nowhere", call(SYS_sched_getparam, &[0, 0]));
        for nice in [5, 100, -100] {
            tell("nice", call(SYS_setpriority, &[0, 0, nice as u64]));
            tell("as nice", call(SYS_getpriority, &[0, 0]));
            in_child("a child", || tell("a child's", call(SYS_getpriority, &[0, 0])));
        }
    });
}

fn controls() {
    for (name, what, argument) in [
        ("kept capabilities", 7, 0),
        ("timing", 13, 0),
        ("a capability", 23, 0),
        ("an unknown capability", 23, 99),
        ("secure bits", 27, 0),
        ("slack of timers", 30, 0),
        ("no huge pages", 42, 0),
    ] {
        tell(name, call(SYS_prctl, &[what, argument, 0, 0, 0]));
    }
    tell("no huge pages, with an argument", call(SYS_prctl, &[42, 1, 0, 0, 0]));
}
