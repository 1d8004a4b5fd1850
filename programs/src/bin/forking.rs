//! `fork`: copies on write, what is shared, and what children end with.

use libc::*;
use programs::child::{ended, wait};
use programs::machine::{dispose, exit, fork, word};
use programs::memory::{READ_WRITE, file, pages};
use programs::{call, child, in_child, map, page, peek, poke, tell, touch};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

fn main() {
    let page = page();
    copies(page);
    own_again(page);
    shared(page);
    statuses();
    waiting();
    many(page);
    by_words();
    siblings();
}

/// `clone3`, which is told in memory what is wished: flags, numbers, the signal of the end, a stack, and a thread's pointer.
fn by_words() {
    let clone3 = |words: &[u64], bytes: u64| call(SYS_clone3, &[words.as_ptr() as u64, bytes]);
    let wanted = |flags: u64, signal: u64| [flags, 0, 0, 0, signal, 0, 0, 0, 0, 0, 0, 0];
    let tell_child = |what: &str, words: [u64; 12]| match clone3(&words, 88) {
        Ok(0) => exit(7),
        Ok(number) => println!("{what}: {}", ended(wait(number as i32))),
        Err(error) => println!("{what}: {error}"),
    };
    tell_child("a child", wanted(0, SIGCHLD as u64));
    tell_child("in vfork", wanted(CLONE_VFORK as u64, SIGCHLD as u64));
    let mut number = 0u32;
    let mut told = wanted(CLONE_PARENT_SETTID as u64, SIGCHLD as u64);
    told[3] = &raw mut number as u64;
    tell_child("its number", told);
    println!("told: {}", word(&raw const number as u64).load(Ordering::SeqCst) > 0);
    tell("too few words", clone3(&wanted(0, 0), 56));
    tell("more than a page", clone3(&wanted(0, 0), page() + 1));
    let mut more = wanted(0, 0);
    more[11] = 1;
    tell("words that are not known", clone3(&more, 96));
    tell("nowhere", call(SYS_clone3, &[8, 88]));
    tell_child("a signal in the flags", wanted(SIGCHLD as u64, 0));
    tell_child("no such signal", wanted(0, 65));
    tell_child("a thread alone", wanted(CLONE_THREAD as u64, 0));
    tell_child("a thread that tells its end", wanted((CLONE_THREAD | CLONE_SIGHAND | CLONE_VM) as u64, SIGCHLD as u64));
    let mut stack = wanted(0, SIGCHLD as u64);
    stack[6] = 64;
    tell_child("a stack without a place", stack);
    let clear = 1 << 32;
    tell_child("handlers shared and cleared", wanted(clear | (CLONE_SIGHAND | CLONE_VM) as u64, 0));
    tell_child("handlers cleared", wanted(clear, SIGCHLD as u64));
}

/// What a child had too is its parent's alone once the parent has waited for its end.
fn own_again(page: u64) {
    let base = pages(1);
    poke(base, 1);
    let map = std::fs::File::open("/proc/self/pagemap").expect("pagemap");
    let is_own = || {
        let mut entry = [0; 8];
        map.read_exact_at(&mut entry, base / page * 8).expect("an entry");
        u64::from_le_bytes(entry) >> 56 & 1 == 1
    };
    let ends = || match fork() {
        Some(child) => _ = wait(child),
        None => exit(0),
    };
    println!(
        "one's own again: {}",
        (0..50)
            .filter(|_| is_own() && {
                ends();
                is_own()
            })
            .count()
    );
}

fn copies(page: u64) {
    let base = pages(8);
    touch(base, 4 * page, 1);
    in_child("the first", || {
        poke(base, 2);
        poke(base + 5 * page, 3);
        println!(
            "in the child: {} {} {} {}",
            peek(base),
            peek(base + page),
            peek(base + 5 * page),
            peek(base + 6 * page)
        );
        in_child("its child", || {
            println!("in its child: {} {}", peek(base), peek(base + page));
            poke(base + page, 4);
            println!("and after: {}", peek(base + page));
        });
        println!("in the child, after: {}", peek(base + page));
    });
    println!("in the parent: {} {} {}", peek(base), peek(base + page), peek(base + 5 * page));
    poke(base, 9);
    println!("written after the child: {}", peek(base));
    let private = map(0, 2 * page, READ_WRITE, MAP_PRIVATE, file(2 * page), 0).expect("room");
    poke(private, 50);
    in_child("a file", || {
        println!("a copy of a file in the child: {} {}", peek(private), peek(private + page));
        poke(private, 51);
        poke(private + page, 52);
    });
    println!("and in the parent: {} {}", peek(private), peek(private + page));
}

fn shared(page: u64) {
    let zeros = map(0, 2 * page, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0).expect("room");
    let number = file(2 * page);
    let of_file = map(0, 2 * page, READ_WRITE, MAP_SHARED, number, 0).expect("room");
    in_child("what is shared", || {
        poke(zeros, 1);
        poke(zeros + page, 2);
        poke(of_file + page, 3);
        let mut byte = 0u8;
        tell("read", call(SYS_read, &[number as u64, &raw mut byte as u64, 1]));
    });
    println!("shared: {} {} {}", peek(zeros), peek(zeros + page), peek(of_file + page));
    tell("the place in a file is shared", call(SYS_lseek, &[number as u64, 0, SEEK_CUR as u64]));
    let counter = word(zeros);
    counter.store(0, Ordering::SeqCst);
    let children: Vec<i32> = (0..4)
        .filter_map(|_| {
            let number = fork();
            if number.is_none() {
                for _ in 0..1000 {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
                exit(0);
            }
            number
        })
        .collect();
    for number in children {
        wait(number);
    }
    println!("counted together: {}", counter.load(Ordering::SeqCst));
}

fn statuses() {
    for status in [0, 1, 255, 256, -1] {
        println!("exit {status}: {}", child(|| status));
    }
    for signal in [SIGKILL, SIGTERM, SIGSEGV, SIGABRT, SIGUSR1, SIGPIPE, SIGQUIT] {
        let end = child(|| {
            dispose(signal, SIG_DFL).ok();
            call(SYS_kill, &[std::process::id().into(), signal as u64]).map_or(9, |_| 8)
        });
        println!("signal {signal}: {end}");
    }
    for signal in [SIGCHLD, SIGURG, SIGWINCH, SIGCONT] {
        let end = child(|| call(SYS_kill, &[std::process::id().into(), signal as u64]).map_or(9, |_| 8));
        println!("signal {signal}: {end}");
    }
}

fn waiting() {
    let ask = |number: i32, options: i32| {
        let mut status = 0i32;
        call(SYS_wait4, &[number as i64 as u64, &raw mut status as u64, options as u64, 0])
    };
    tell("no child", ask(-1, 0));
    tell("not a child", ask(1, 0));
    tell("unknown options", ask(-1, 0x100));
    let number = fork().unwrap_or_else(|| {
        call(SYS_pause_or_sleep(), &[]).ok();
        let long = [1000u64, 0];
        call(SYS_nanosleep, &[long.as_ptr() as u64, 0]).ok();
        exit(0)
    });
    tell("not yet", ask(-1, WNOHANG));
    tell("another group", ask(-number, WNOHANG));
    tell("the own group", ask(0, WNOHANG));
    tell("kill", call(SYS_kill, &[number as u64, SIGKILL as u64]));
    let mut info = [0u32; 32];
    let ask_id = |kind: u32, number: i32, options: i32, to: *mut u32| {
        call(SYS_waitid, &[kind.into(), number as u64, to as u64, options as u64, 0])
    };
    tell("waitid without a purpose", ask_id(P_PID, number, 0, info.as_mut_ptr()));
    tell("waitid, unknown kind", ask_id(9, number, WEXITED, info.as_mut_ptr()));
    tell("waitid, kept", ask_id(P_PID, number, WEXITED | WNOWAIT, info.as_mut_ptr()));
    println!("signal {} code {} is the child {} status {}", info[0], info[2], info[4] == number as u32, info[6]);
    println!("it is there still: {}", ask(number, 0).is_ok_and(|found| found == number as u64));
    tell("gone", ask(number, 0));
    tell("kill what is gone", call(SYS_kill, &[number as u64, 0]));
    println!("status: {}", ended(9));
}

/// A number that no call has.
#[expect(non_snake_case, reason = "as the others are named")]
const fn SYS_pause_or_sleep() -> c_long {
    9999
}

fn many(page: u64) {
    let base = pages(64);
    touch(base, 64 * page, 1);
    let mut sum = 0;
    for round in 0..8u8 {
        let end = child(|| {
            touch(base, 64 * page, round + 2);
            (0..64).map(|at| i32::from(peek(base + at * page))).sum::<i32>() / 64
        });
        println!("round {round}: {end}");
        sum += u32::from(peek(base));
    }
    println!("the parent's: {sum}");
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
